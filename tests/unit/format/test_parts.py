"""Oversized checkpoints: what moves out, and that all of it comes back."""

import json
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure
from holdfast.format.checkpoint import draft_from_mapping, draft_from_text, open_stored, stamp
from holdfast.format.part_files import PartStyle
from holdfast.format.parts import MOST_PLACES, join_parts, part_paths
from holdfast.format.splitting import Split, split_body
from holdfast.jsontext.encode import encode
from holdfast.jsontext.members import find_members, sha256_hex
from holdfast.jsontext.weight import is_heavier

LIMIT = 20_000
NOW = "2026-11-16T10:00:00Z"
ID = "550e8400-e29b-41d4-a716-446655440000"
PATH = "checkpoints/r/cp_001_manual.json"


def body_of(state: Any) -> bytes:
    checkpoint = {"run_id": "r", "trigger": "manual", "state": state}
    return draft_from_mapping(checkpoint, now=NOW, new_id=lambda: ID).body(1)


def split(state: Any) -> Split:
    return split_body(body_of(state), limit_bytes=LIMIT, style=PartStyle("checkpoints/r"))


def join(parts: Split) -> bytes:
    stored = {f"checkpoints/r/{name}": content for name, content in parts.parts.items()}
    return join_parts(stamp(parts.body).content, stored.__getitem__, PATH)


def text(kilobytes: int, letter: str = "x") -> str:
    return letter * (kilobytes * 1000)


@pytest.mark.parametrize(
    ("state", "places"),
    [
        ({"big": text(30), "small": 1}, [["state_snapshot", "big"]]),
        ({"small": [1.0], "big": text(30), "middle": text(9)}, [["state_snapshot", "big"]]),
        (
            {"phase_outputs": {"phase_1": text(5), "phase_2": text(90), "phase_3": text(5)}, "n": 1},
            [["state_snapshot", "phase_outputs", "phase_2"]],
        ),
        ({"a": text(30), "b": text(30, "y")}, [["state_snapshot", "a"], ["state_snapshot", "b"]]),
        (text(30), [["state_snapshot"]]),
        ([text(15), text(15)], [["state_snapshot"]]),
    ],
    ids=["one", "the largest alone", "within a member", "two", "a text", "a list"],
)
def test_largest_members_move_out_and_come_back(state: Any, places: list[list[str]]) -> None:
    parts = split(state)

    assert len(parts.body) <= LIMIT
    assert sorted(json.loads(parts.body)["parts"]) == sorted(places)
    assert join(parts) == body_of(state)


@pytest.mark.parametrize(
    ("state", "places"),
    [
        ({f"item-{number:04}": {"n": number} for number in range(2000)}, [["state_snapshot"]]),
        ({f"item-{number:04}": text(3) for number in range(20)}, [["state_snapshot"]]),
        (
            {"phase": "plan", "items": {f"item-{number:04}": number for number in range(2000)}},
            [["state_snapshot", "items"]],
        ),
        (
            {"outputs": {"big": text(30), **{f"small-{number:04}": text(1) for number in range(25)}}, "n": 1},
            [["state_snapshot", "outputs"]],
        ),
        ({"é" * 9000: text(3), "n": text(9)}, [["state_snapshot"]]),
    ],
    ids=["tiny", "too many", "tiny within", "the largest is not enough", "a long name"],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_many_small_members_move_together(state: Any, places: list[list[str]], indent: int | None) -> None:
    header = b'{"run_id":"r","trigger":"manual","state":%b}'
    spelled = json.dumps(state, indent=indent, ensure_ascii=False).encode()
    body = draft_from_text(header % spelled, now=NOW, new_id=lambda: ID).body(1)

    parts = split_body(body, limit_bytes=LIMIT, style=PartStyle("checkpoints/r"))

    assert len(parts.body) <= LIMIT
    assert json.loads(parts.body)["parts"] == places
    assert join(parts) == body


def test_no_checkpoint_has_more_than_a_handful_of_parts() -> None:
    fitting = split({f"item-{number}": text(9, str(number)) for number in range(9)})
    beyond = split({f"item-{number}": text(9, chr(97 + number)) for number in range(12)})

    assert (len(fitting.parts), len(beyond.parts)) == (8, 1)
    assert len(fitting.body) <= LIMIT


def test_what_an_earlier_release_split_into_many_parts_comes_back() -> None:
    state = {f"item-{number}": text(3, chr(97 + number)) for number in range(20)}
    parts = {f"parts/{sha256_hex(encode(value))}.json": encode(value) for value in state.values()}
    references = {
        name: {
            "$part": f"checkpoints/r/{path}",
            "sha256": sha256_hex(content),
            "bytes": len(content),
        }
        for name, (path, content) in zip(state, parts.items(), strict=True)
    }
    places = [["state_snapshot", name] for name in state]
    body = body_of(references)[:-1] + b',"parts":' + encode(places) + b"}"

    assert join(Split(body, parts)) == body_of(state)


def test_small_checkpoint_stays_whole() -> None:
    body = body_of({"small": 1})

    assert split_body(body, limit_bytes=LIMIT, style=PartStyle("checkpoints/r")) == Split(body, {})


def test_reference_says_where_how_long_and_what() -> None:
    parts = split({"big": text(30)})

    reference = json.loads(parts.body)["state_snapshot"]["big"]
    ((name, content),) = parts.parts.items()
    assert reference == {"$part": f"checkpoints/r/{name}", "sha256": name[6:-5], "bytes": len(content)}
    assert part_paths(json.loads(parts.body), "x.json") == [reference["$part"]]


def test_same_large_output_is_the_same_part_in_every_checkpoint() -> None:
    assert split({"big": text(30), "n": 1}).parts == split({"big": text(30), "n": 2}).parts


def test_stored_form_is_stamped_like_any_other() -> None:
    envelope, _ = open_stored(stamp(split({"big": text(30)}).body).content, PATH)

    assert envelope.sequence == 1


def test_state_that_looks_like_a_reference_is_left_alone() -> None:
    lookalike = {"$part": "checkpoints/r/parts/x.json", "sha256": "0", "bytes": 1}
    state = {"mine": lookalike, "big": text(30)}

    assert join(split(state)) == body_of(state)


def test_altered_part_is_named() -> None:
    parts = split({"big": text(30)})
    stored = {f"checkpoints/r/{name}": content.replace(b"x", b"y") for name, content in parts.parts.items()}

    with pytest.raises(
        IntegrityFailure, match=r"is not the part that checkpoints/r/cp_001_manual\.json refers to"
    ):
        join_parts(parts.body, stored.__getitem__, PATH)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda document: document["parts"].append(["state_snapshot", "gone"]), "where there is nothing"),
        (lambda document: document["state_snapshot"].update(big=5), "no reference to one"),
        (lambda document: document["state_snapshot"].update(big={}), "no reference to one"),
        (lambda document: document["parts"].append(["state_snapshot"]), "within another one"),
        (lambda document: document["parts"].append(["state_snapshot", "big", "$part"]), "within another one"),
        (lambda document: document["parts"].extend([["a"]] * MOST_PLACES), "1,000 are the most"),
        (lambda document: document["parts"].append(["state_snapshot"] * 20), "deeper than any"),
        (lambda document: document.update(parts={"a": 1}), "makes no sense"),
        (lambda document: document.update(parts=["state_snapshot"]), "makes no sense"),
        (lambda document: document.update(parts=[[1]]), "makes no sense"),
    ],
)
def test_list_of_parts_that_does_not_fit_is_refused(change: Any, reason: str) -> None:
    parts = split({"big": text(30)})
    document = json.loads(parts.body)
    change(document)
    stored = {f"checkpoints/r/{name}": content for name, content in parts.parts.items()}

    with pytest.raises(IntegrityFailure, match=reason):
        join_parts(json.dumps(document).encode(), stored.__getitem__, PATH)


@pytest.mark.slow
def test_state_that_would_take_too_much_memory_is_split_though_it_is_small_enough() -> None:
    body = body_of({"dense": [{}] * 900_000, "light": "x"})

    parts = split_body(body, limit_bytes=10 * 1024**2, style=PartStyle("checkpoints/r"))

    assert [len(part) for part in parts.parts.values()] == [len("[") + 900_000 * len("{},")]
    assert not is_heavier(parts.body)
    assert join(parts) == body


def test_a_file_with_many_places_is_looked_through_once_for_each_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = b"1"
    reference = {"$part": "checkpoints/r/parts/a.json", "sha256": sha256_hex(content), "bytes": 1}
    names = [f"member-{number}" for number in range(MOST_PLACES)]
    places = [["state_snapshot", name] for name in names]
    body = body_of(dict.fromkeys(names, reference))[:-1] + b',"parts":' + encode(places) + b"}"
    looked: list[int] = []

    def find(text: bytes, *wanted: Any) -> Any:
        looked.append(len(text))
        return find_members(text, *wanted)

    monkeypatch.setattr("holdfast.format.parts.find_members", find)

    joined = join_parts(body, lambda _: content, PATH)

    assert joined == body_of(dict.fromkeys(names, 1))
    assert len(looked) == 3

"""Which members are stored once: what was seen before, at any depth, and how little is sent then."""

import json
from typing import Any
from uuid import UUID

import pytest

from holdfast.format.checkpoint import Envelope, draft_from_mapping
from holdfast.format.incremental import Memory, PartChooser, find_members_of_state, remember
from holdfast.format.part_files import PartStyle
from holdfast.format.parts import MOST_PLACES, join_envelope

FOLDER = "checkpoints/r"
BIG = "x" * 3000
OTHER = "y" * 3000
LEAST = 2048


def body_of(state: Any, number: int = 1) -> bytes:
    checkpoint = {
        "run_id": "r",
        "trigger": "manual",
        "checkpoint_id": str(UUID(int=number | 1 << 127)),
        "state": state,
    }
    return draft_from_mapping(checkpoint, now="2026-11-17T10:00:00Z", new_id=str).body(number)


class Chain:
    """Checkpoints one after the other, each stored before the next; what is stored stays."""

    def __init__(
        self,
        *,
        compress_from_bytes: int | None = None,
        limit_bytes: int = 10_000_000,
        replaces_parts: bool = False,
    ) -> None:
        self.replaces_parts = replaces_parts
        self.style = PartStyle(FOLDER, compress_from_bytes)
        self.limit_bytes = limit_bytes
        self.stored: dict[str, bytes] = {}
        self.memory = Memory()
        self.count = 0

    def save(self, state: Any) -> Envelope:
        self.count += 1
        chooser = PartChooser(
            self.memory, self.style, self.limit_bytes, LEAST, replaces_parts=self.replaces_parts
        )
        envelope = chooser.stamp(body_of(state, self.count))
        self.stored |= {f"{FOLDER}/{name}": content for name, content in envelope.parts.items()}
        self.memory = remember(envelope.content, "cp", FOLDER, LEAST)
        return envelope

    def state_of(self, envelope: Envelope) -> Any:
        whole = join_envelope(envelope, self.stored.__getitem__, "cp")
        return json.loads(whole.content)["state_snapshot"]


@pytest.mark.parametrize(
    "shape",
    [
        lambda big, small: {"big": big, "small": small},
        lambda big, small: {"outer": {"deep": {"big": big}, "small": small}},
        lambda big, small: {"list": [big, small]},
        lambda big, small: {"list": [small, {"in": [1, {"big": big}]}]},
        lambda big, small: {"progress": {"style": "tasks", "tasks": {"a": {"out": big}}, "n": small}},
    ],
)
def test_member_becomes_a_part_when_it_is_seen_again_and_is_sent_once(shape: Any) -> None:
    chain = Chain()

    sent = [chain.save(shape(BIG, number)) for number in range(4)]

    assert [len(envelope.parts) for envelope in sent] == [0, 1, 0, 0]
    assert len(sent[0].content) > 3000 > len(sent[1].content)
    assert [chain.state_of(each) for each in sent] == [shape(BIG, number) for number in range(4)]


def test_member_that_changes_goes_back_into_the_checkpoint() -> None:
    chain = Chain()
    states = [{"big": text} for text in (BIG, BIG, OTHER, OTHER, OTHER)]

    sent = [chain.save(state) for state in states]

    assert [len(envelope.parts) for envelope in sent] == [0, 1, 0, 1, 0]
    assert [chain.state_of(each) for each in sent] == states


def test_what_stays_within_what_changes_is_stored_once() -> None:
    chain = Chain()
    members = {f"m{number}": f"{number}" * 3000 for number in range(20)}

    sent = []
    states = []
    for number in range(20):
        members = {**members, f"m{number}": f"changed {number} " * 300}
        states.append({"outputs": members})
        sent.append(chain.save({"outputs": members}))

    assert all(len(envelope.content) < 12_000 for envelope in sent[2:])
    assert [chain.state_of(each) for each in sent] == states


def test_reference_that_a_caller_wrote_is_not_taken_for_one() -> None:
    chain = Chain()
    state = {"big": BIG, "looks": {"$part": "checkpoints/r/parts/0.json", "sha256": "0", "bytes": 1}}

    sent = [chain.save(state) for _ in range(3)]

    assert [chain.state_of(each) for each in sent] == [state] * 3


def test_several_of_one_drain_send_each_part_once() -> None:
    chooser = PartChooser(Memory(), PartStyle(FOLDER), 10_000_000, LEAST)

    sent = [chooser.stamp(body_of({"big": BIG, "n": number}, number)) for number in range(1, 5)]

    assert [len(envelope.parts) for envelope in sent] == [0, 1, 0, 0]


def test_checkpoint_that_is_stamped_again_is_stamped_as_it_was() -> None:
    chooser = PartChooser(Memory(), PartStyle(FOLDER), 10_000_000, LEAST)
    first, second = (body_of({"big": BIG, "n": number}, number) for number in (1, 2))

    before = [chooser.stamp(first), chooser.stamp(second)]
    again = [chooser.stamp(first), chooser.stamp(second)]

    assert [each.content for each in again] == [each.content for each in before]
    assert [dict(each.parts) for each in again] == [dict(each.parts) for each in before]


def test_what_is_kept_in_mind_is_what_the_stored_checkpoint_tells() -> None:
    kept: dict[str, Memory] = {}
    chooser = PartChooser(Memory(), PartStyle(FOLDER), 10_000_000, LEAST, kept.__setitem__)
    state = {"big": BIG, "outer": {"other": OTHER, "n": 1}}

    members = find_members_of_state(body_of(state), LEAST)
    for number in (1, 2, 3):
        envelope = chooser.stamp(body_of(state, number))
        told = remember(envelope.content, "cp", FOLDER, LEAST)
        assert kept[envelope.blob_sha].parts == told.parts
        assert kept[envelope.blob_sha].digests <= told.digests | {each.digest for each in members}


def test_part_that_is_gone_is_sent_again() -> None:
    chain = Chain()
    chain.save({"big": BIG})
    chain.save({"big": BIG})
    chain.memory = chain.memory.only(())
    chain.stored.clear()

    sent = [chain.save({"big": BIG}) for _ in range(3)]

    assert all(chain.state_of(each) == {"big": BIG} for each in sent)


def test_small_members_and_what_others_look_at_stay_where_they_are() -> None:
    gates = [{"gate_id": "g", "decision": "pass", "note": BIG}]
    state = {
        "small": "x" * 1000,
        "gate_history": gates,
        "circuit_breaker_state": {"note": BIG},
        "progress": {"style": "tasks", "tasks": {str(number): "x" * 50 for number in range(100)}},
    }

    places = [member.place for member in find_members_of_state(body_of(state), LEAST)]

    assert places == [("state_snapshot", "progress", "tasks")]


def test_oversized_checkpoint_with_known_members_is_whole() -> None:
    chain = Chain(limit_bytes=200_000)
    known = {f"k{number}": f"{number}" * 60_000 for number in range(5)}
    states = [{**known, "new": str(number) * 150_000} for number in range(4)]

    sent = [chain.save(state) for state in states]

    assert all(len(envelope.content) <= 200_000 for envelope in sent)
    assert [chain.state_of(each) for each in sent] == states
    assert len(sent[-1].parts) <= 1


@pytest.mark.parametrize("limit_bytes", [70_000, 10_000_000])
def test_compressed_members_are_known_again(limit_bytes: int) -> None:
    chain = Chain(compress_from_bytes=4096, limit_bytes=limit_bytes)
    states = [{"log": "line and line " * 10_000, "n": number} for number in range(4)]

    sent = [chain.save(state) for state in states]

    assert [chain.state_of(each) for each in sent] == states
    assert sum(len(content) for content in chain.stored.values()) < 5000
    assert not sent[-1].parts


def test_stored_checkpoint_that_cannot_be_read_is_as_good_as_none() -> None:
    assert remember(b"{", "cp", FOLDER, LEAST) == Memory()
    assert remember(b"{}", "cp", FOLDER, LEAST) == Memory()


@pytest.mark.slow
def test_of_more_members_than_a_checkpoint_may_refer_to_the_largest_are_stored_once() -> None:
    chain = Chain()
    state = {f"m{number}": "x" * (LEAST + number) for number in range(MOST_PLACES + 200)}

    sent = [chain.save({**state, "n": number}) for number in range(3)]

    smallest_moved = len(state) - len(sent[1].parts)
    assert 0 < len(sent[1].parts) < MOST_PLACES
    assert min(map(len, sent[1].parts.values())) == LEAST + smallest_moved + 2
    assert not sent[2].parts
    assert chain.state_of(sent[2]) == {**state, "n": 2}


@pytest.mark.parametrize("replaces_parts", [False, True])
def test_what_comes_in_the_place_of_a_part_is_one_at_once_where_that_costs_nothing(
    replaces_parts: bool,
) -> None:
    chain = Chain(replaces_parts=replaces_parts)
    states = [{"n": 0, "all": {"a": BIG, "b": BIG + "1"}}, {"n": 1, "all": {"a": OTHER, "b": BIG + "1"}}]
    states += [{"n": number, "all": {"a": OTHER, "b": f"{OTHER}{number}"}} for number in range(2, 6)]

    sent = [chain.save(state) for state in states]

    assert [chain.state_of(each) for each in sent] == states
    # b is seen again in the second, and a in the third; from then on another b comes in the place of a part.
    assert [len(each.parts) for each in sent] == (
        [0, 1, 2, 1, 1, 1] if replaces_parts else [0, 1, 1, 0, 0, 0]
    )
    assert all(len(each.content) < 3000 for each in sent[2:]) is replaces_parts


def test_what_is_around_a_change_is_not_sent_as_a_whole_again_and_again() -> None:
    chain = Chain(replaces_parts=True)
    inner = {f"m{number}": f"{number}{BIG}" for number in range(5)}
    chain.save({"all": inner, "n": 1})
    whole = chain.save({"all": inner, "n": 2})
    later = []
    for number in range(6):
        inner = {**inner, f"m{number % 5}": f"{number}{OTHER}"}
        later.append(chain.save({"all": inner, "n": number}))

    assert [len(text) for text in whole.parts.values()] == [15_000 + 5 + 5 * 7 + 6]
    assert all(sum(map(len, each.parts.values())) < 4_000 for each in later[3:])
    assert chain.state_of(later[-1])["all"] == inner

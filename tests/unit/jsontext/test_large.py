import json
import random
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson
import pytest
from hypothesis import settings

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext import large as runs
from holdfast.jsontext.flaws import MAX_DEPTH, find_flaw
from holdfast.jsontext.members import (
    canonical,
    canonical_sha256,
    check_value,
    find_items,
    find_members,
    parse_document,
)
from holdfast.jsontext.parse import parse_value

NUMBERS = ["0", "-1", "1.5", "1.10", "-0", "1e5", "123456789012345678901234567890", "1.0"]
TEXTS = ["", "a", "é", "\U0001f600", 'a"b', "a\\b", "},{", '","', "[", "x" * 90, "\n" * 40]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take even small texts apart, so that every way through them is gone many times."""
    monkeypatch.setattr(runs, "_RUN_BYTES", 48)
    monkeypatch.setattr(runs, "_SORTED_BYTES", 150)
    monkeypatch.setattr(runs, "_SAMPLED", 3)
    monkeypatch.setattr(runs, "LARGE_BYTES", 100)


def write_value(chance: random.Random, depth: int, *, is_spaced: bool) -> str:
    space = chance.choice(["", " ", "\n\t"]) if is_spaced else ""
    kind = chance.randrange(7) if depth else chance.randrange(3)
    if kind == 0:
        return chance.choice(NUMBERS if is_spaced else ["0", "-1", "1.5"])
    if kind == 1:
        return json.dumps(chance.choice(TEXTS), ensure_ascii=is_spaced and chance.random() < 0.5)
    if kind == 2:
        return chance.choice(["true", "false", "null", "[]", "{}"])
    inner = [write_value(chance, depth - 1, is_spaced=is_spaced) for _ in range(chance.randrange(9))]
    if kind < 5:
        return "[" + space + f"{space},{space}".join(inner) + space + "]"
    names = {chance.choice(TEXTS) + str(chance.randrange(30)) for _ in inner}
    members = [f"{json.dumps(name)}{space}:{space}{value}" for name, value in zip(names, inner, strict=False)]
    return "{" + space + f"{space},{space}".join(members) + space + "}"


def texts(count: int) -> Iterator[bytes]:
    for seed in range(count):
        chance = random.Random(seed)
        text = write_value(chance, 5, is_spaced=seed % 2 == 0)
        if len(text) > 100 and text[0] in "[{":
            yield text.encode()


def is_valid(text: bytes) -> bool:
    try:
        find_flaw(text)
    except InvalidCheckpoint:
        return False
    return True


def how_many() -> int:
    """Return how many texts are tried: fewer where hypothesis tries fewer, too."""
    return 240 if settings().max_examples >= 100 else 60


def is_cut(text: bytes) -> bool:
    """Whether a text is read a run at a time, not whole."""
    return runs.cut_apart(text, text[:1]) is not None


@pytest.mark.slow
@pytest.mark.usefixtures("small_pieces")
def test_valid_texts_are_cut_and_keep_their_canonical_form() -> None:
    taken = list(texts(how_many()))
    for text in taken:
        assert is_cut(text), text
        assert canonical_sha256(text) == sha256(canonical(text)).hexdigest(), text
    assert len(taken) > how_many() // 6


@pytest.mark.slow
@pytest.mark.usefixtures("small_pieces")
def test_damaged_texts_are_cut_only_if_they_are_still_json() -> None:
    seen = {True: 0, False: 0}
    for number, text in enumerate(texts(how_many())):
        chance = random.Random(number)
        for _ in range(4):
            place = chance.randrange(len(text))
            instead = chance.choice(
                [b"", b",", b'"', b"[", b"]", b"{", b"}", b"\\", b":", b"1", b" ", b"\xff"]
            )
            damaged = text[:place] + instead + text[place + chance.randrange(2) :]
            valid = is_valid(damaged)
            seen[valid] += 1
            if damaged[:1] in (b"{", b"["):
                assert is_cut(damaged) is valid, damaged
    assert min(seen.values()) > how_many() // 5


@pytest.mark.usefixtures("small_pieces")
def test_large_document_has_the_members_that_a_small_one_has() -> None:
    for text in texts(how_many()):
        if not text.startswith(b"{"):
            continue
        document = parse_document(text)
        value: dict[str, Any] = parse_value(text)
        assert list(document.members) == list(value)
        # Written out, since a number of Python equals others that are written otherwise.
        assert repr(dict(document.value)) == repr(value)
        assert {name: parse_value(each) for name, each in document.members.items()} == value
        found = find_members(text, lambda _, size_bytes: size_bytes > 3)
        assert {text[start:end] for _, start, end in found} == {
            each for each in document.members.values() if len(each) > 3
        }


@pytest.mark.usefixtures("small_pieces")
def test_digest_leaves_one_member_out() -> None:
    state = b'{"b":[' + b",".join(b'{"y":%d,"x":"%d"}' % (n, n) for n in range(50)) + b'],"a":1.10}'
    text = b'{"state":%b,"integrity":{"sha256":"0"},"run_id":"r"}' % state
    without = b'{"run_id":"r","state":%b}' % state
    assert parse_document(text).sha256_without("integrity") == canonical_sha256(without)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("distance", [1, 20, 200])
def test_name_that_occurs_twice_in_different_pieces_is_refused(distance: int) -> None:
    members = [b'"k%d":%d' % (number, number) for number in range(distance)]
    text = b'{"twice":1,%b,"twice":2,"end":"%b"}' % (b",".join(members), b"x" * 100)
    with pytest.raises(InvalidCheckpoint, match="twice"):
        parse_document(text)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("inner", [b'{"a":%b}', b"[%b]"])
def test_nesting_is_limited_as_in_a_small_text(inner: bytes) -> None:
    filling = b"[" + b",".join([b'"0123456789"'] * 20) + b"]"
    for levels in (2, 50, MAX_DEPTH - 1):
        text = _nest(filling, inner, levels)
        assert is_valid(text)
        check_value(text)
    text = _nest(filling, inner, MAX_DEPTH)
    assert not is_valid(text)
    with pytest.raises(InvalidCheckpoint, match="nesting"):
        check_value(text)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [b'{"a":%b}', b"[%b]"])
def test_large_text_that_is_nested_deeply_is_read_whole_even_by_a_caller_deep_down(inner: bytes) -> None:
    text = _nest(b'["%b"]' % (b"x" * runs.LARGE_BYTES), inner, MAX_DEPTH - 1)

    def check_from(depth: int) -> None:
        if depth:
            check_from(depth - 1)
        else:
            check_value(text)

    check_from(sys.getrecursionlimit() - 300)


def _nest(text: bytes, inner: bytes, levels: int) -> bytes:
    for _ in range(levels):
        text = inner % text
    return text


@pytest.mark.slow
def test_flaw_of_a_large_text_is_told_with_its_place_and_byte() -> None:
    text = b'{"tasks":[%b,NaN]}' % b",".join([b'{"id":1}'] * 300_000)
    with pytest.raises(InvalidCheckpoint) as caught:
        parse_document(text)
    assert caught.value.place == "tasks[300000]"
    assert f"at byte {text.index(b'NaN')}" in caught.value.reason


@pytest.mark.slow
def test_large_string_is_judged_and_written_like_a_small_one() -> None:
    for written in ("x" * 3_000_000, "é" * 1_500_000, "\U0001f600" * 700_000, "a\\/b" * 700_000):
        text = b'{"b":"%b","a":1}' % written.encode()
        assert canonical_sha256(text) == sha256(canonical(text)).hexdigest()
    with pytest.raises(InvalidCheckpoint, match="surrogate"):
        parse_document(b'{"b":"%b\\ud800"}' % (b"x" * 3_000_000))


@pytest.mark.slow
def test_object_of_very_many_members_is_sorted_in_several_goes() -> None:
    value = {f"key{number}": number for number in range(500_000)}
    text = orjson.dumps(value)
    assert canonical_sha256(text) == sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


@pytest.mark.slow
def test_items_of_a_large_array_are_found_like_those_of_a_small_one() -> None:
    items = [f'{{"n": {number}, "text": "\u00fc{"x" * (number % 50)}"}}' for number in range(60_000)]
    items[7] = json.dumps("y" * 700_000)
    text = ("[" + ", ".join(items) + " ]").encode()
    assert len(text) > runs.LARGE_BYTES

    found = find_items(b"#" + text + b"#", 60, 1, len(text) + 1)

    expected = [(number, item) for number, item in enumerate(items) if len(item.encode()) >= 60]
    assert [(number, text[start - 1 : end - 1].decode()) for number, start, end in found] == expected

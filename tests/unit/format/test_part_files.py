"""The files of parts: pieces that fit, compression that is always the same, nothing that unpacks too far."""

import gzip
import json
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure
from holdfast.format import part_files
from holdfast.format.part_files import PartStyle, list_files, make_parts, read_text
from holdfast.jsontext.members import sha256_hex

FOLDER = "checkpoints/r"
PLAIN = PartStyle(FOLDER)
PACKED = PartStyle(FOLDER, compress_from_bytes=1024)


def joined(made: part_files.PartFiles) -> bytes:
    stored = {f"{FOLDER}/{name}": content for name, content in made.files.items()}
    return b"".join(read_text(made.reference, stored.__getitem__, "cp"))


def test_small_text_is_one_file_named_by_its_digest() -> None:
    made = make_parts(b'"text"', PLAIN)

    digest = sha256_hex(b'"text"')
    assert made.files == {f"parts/{digest}.json": b'"text"'}
    assert made.reference == {"$part": f"{FOLDER}/parts/{digest}.json", "sha256": digest, "bytes": 6}
    assert joined(made) == b'"text"'


def test_large_text_lies_in_pieces_and_no_character_is_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "MAX_FILE_BYTES", 10)
    text = json.dumps("ä€😀" * 9, ensure_ascii=False).encode()

    made = make_parts(text, PLAIN)

    assert len(made.reference["$parts"]) == len(list_files(made.reference)) > 8
    assert all(len(content) <= 10 and content.decode() for content in made.files.values())
    assert joined(made) == text


def test_text_of_the_largest_size_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "MAX_FILE_BYTES", 10)

    assert len(make_parts(b"1234567890", PLAIN).files) == 1
    assert len(make_parts(b"12345678901", PLAIN).files) == 2


def test_compression_is_the_same_every_time_and_comes_back() -> None:
    text = json.dumps(["a line that repeats itself"] * 500).encode()

    made = make_parts(text, PACKED)

    assert made == make_parts(text, PACKED)
    ((name, content),) = made.files.items()
    assert name == f"parts/{sha256_hex(content)}.json.gz"
    assert made.reference["encoding"] == "gzip"
    assert made.reference["sha256"] == sha256_hex(content)
    assert len(content) < len(text) / 10
    assert joined(made) == text


@pytest.mark.parametrize("text", [b'"short"', json.dumps(sha256_hex(b"x") * 40).encode()[:1500]])
def test_what_is_small_or_hardly_shrinks_is_stored_as_it_is(text: bytes) -> None:
    style = PartStyle(FOLDER, compress_from_bytes=1024)
    if len(text) > 1024:
        text = bytes(range(32, 127)) * 11  # nothing in it is said twice within reach of a short match

    assert "encoding" not in make_parts(text[:1000], style).reference


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": 10},
        {"bytes": 10_000_000},
        {"encoding": "zstd"},
        {"sha256": "0" * 64},
    ],
)
def test_packed_part_that_is_not_as_announced_is_refused(change: dict[str, Any]) -> None:
    made = make_parts(b'"' + b"a" * 50_000 + b'"', PACKED)
    (content,) = made.files.values()

    with pytest.raises(IntegrityFailure):
        read_text({**made.reference, **change}, lambda _: content, "cp")


@pytest.mark.slow
def test_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    reference = {"$part": "p", "sha256": sha256_hex(bomb), "bytes": 100, "encoding": "gzip"}

    with pytest.raises(IntegrityFailure, match="announced"):
        read_text(reference, lambda _: bomb, "cp")


def test_packed_part_that_is_torn_is_refused() -> None:
    made = make_parts(b'"' + b"a" * 50_000 + b'"', PACKED)
    (content,) = made.files.values()
    torn = content[:-20]

    with pytest.raises(IntegrityFailure):
        read_text({**made.reference, "sha256": sha256_hex(torn)}, lambda _: torn, "cp")


@pytest.mark.parametrize("reference", [{}, {"$parts": []}, {"$part": "p"}, [], "text", None])
def test_what_is_no_reference_is_told(reference: Any) -> None:
    with pytest.raises((LookupError, TypeError, AttributeError)):
        list_files(reference)

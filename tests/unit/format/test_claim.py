import pytest

from holdfast.errors import IntegrityFailure, NewerFormat
from holdfast.format.claim import Claim, parse_claim

CLAIM = Claim("r", 3, "worker-1", "ab" * 32, 300.0, taken_at=1_800_000_000.0, expires_at=1_800_000_300.5)


def test_a_claim_is_read_as_it_was_written() -> None:
    assert parse_claim(CLAIM.to_bytes(), "claim.json", "r") == CLAIM


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a claim"),
        (b"[]", "not a claim"),
        (b"{}", "not a claim"),
        (CLAIM.to_bytes().replace(b'"fence":3', b'"fence":0'), "fence"),
        (CLAIM.to_bytes().replace(b'"fence":3', b'"fence":"x"'), "not a claim"),
        (CLAIM.to_bytes().replace(b'"run_id":"r"', b'"run_id":"s"'), "claim of run 's'"),
        (CLAIM.to_bytes().replace(b'"expires_at":"2027', b'"expires_at":"x2027'), "expires_at"),
    ],
)
def test_anything_else_is_no_claim(content: bytes, reason: str) -> None:
    with pytest.raises(IntegrityFailure, match=reason):
        parse_claim(content, "claim.json", "r")


def test_the_claim_of_a_newer_format_is_left_alone() -> None:
    with pytest.raises(NewerFormat):
        parse_claim(CLAIM.to_bytes().replace(b'"format_version":1', b'"format_version":2'), "c", "r")

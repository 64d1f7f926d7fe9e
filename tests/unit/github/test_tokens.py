import os
from pathlib import Path

from structlog.testing import capture_logs

from holdfast.github.tokens import TokenSource


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    source = TokenSource("given", file)
    before = source.fingerprint()
    assert source.token() == "first"

    file.write_text("second\n")
    os.utime(file, ns=(1, 1))

    assert source.token() == "second"
    assert source.fingerprint() != before


def test_unreadable_file_leaves_the_last_good_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("good")
    source = TokenSource(None, file)
    source.token()
    file.unlink()

    with capture_logs() as events:
        assert [source.token() for _ in range(4)] == ["good"] * 4
    assert [event["event"] for event in events] == ["token_file_unreadable"]


def test_without_a_file_the_token_is_the_one_given() -> None:
    assert TokenSource("given", None).token() == "given"
    assert TokenSource(None, None).token() is None


def test_fingerprint_does_not_tell_the_token() -> None:
    assert "given" not in TokenSource("given", None).fingerprint()

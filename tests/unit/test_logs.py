import json
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import structlog

from holdfast.logs import Log, LogFormat, configure_logs, escape_controls, log


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def start(
    log_format: LogFormat = "json",
    *,
    level: Any = "info",
    secrets: tuple[str, ...] = (),
    has_colour: bool = False,
) -> None:
    configure_logs(log_format, level, secrets=lambda: secrets, has_colour=has_colour)


def fail(reason: str) -> NoReturn:
    raise ValueError(reason)


def logged(capsys: pytest.CaptureFixture[str]) -> Any:
    captured = capsys.readouterr()
    assert captured.out == ""
    return json.loads(captured.err)


def test_an_event_is_one_json_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    start()

    log.warning("batch_written", items=3, run_id="bäckup")

    err = capsys.readouterr().err
    event = json.loads(err)
    assert err.count("\n") == 1
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "batch_written", "level": "warning", "items": 3, "run_id": "bäckup"}


def test_events_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    start(level="warning")

    log.info("batch_written")

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_live_token_never_gets_out(capsys: pytest.CaptureFixture[str], log_format: LogFormat) -> None:
    start(log_format, secrets=("ghp_canary", ""))

    try:
        fail("refused ghp_canary")
    except ValueError:
        log.exception(
            "ghp_canary_refused",
            header="Bearer ghp_canary",
            nested={"ghp_canary": ["x", ("ghp_canary",)]},
            cause=ValueError("ghp_canary"),
            raw=b"ghp_canary",
        )

    err = capsys.readouterr().err
    assert "ghp_canary" not in err
    assert "Bearer [secret]" in err
    assert "ValueError: refused [secret]" in err


def test_a_token_that_begins_like_another_is_replaced_whole(capsys: pytest.CaptureFixture[str]) -> None:
    start(secrets=("ghp_a", "ghp_abc"))

    log.info("seen", token="ghp_abc")

    assert logged(capsys)["token"] == "[secret]"


def test_a_short_token_is_replaced_only_where_it_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    start(secrets=("tok",))

    log.info("seen", header="Bearer tok", advice="give it a token")

    event = logged(capsys)
    assert (event["header"], event["advice"]) == ("Bearer [secret]", "give it a token")


def test_a_token_that_changes_is_scrubbed_from_then_on_and_so_is_the_old_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokens = ["first"]
    configure_logs("json", "info", secrets=lambda: tokens)
    log.info("seen", token="first")
    capsys.readouterr()

    tokens[0] = "second"
    log.info("seen", tokens="first second")

    assert logged(capsys)["tokens"] == "[secret] [secret]"


def test_asking_for_a_token_may_be_logged_itself(capsys: pytest.CaptureFixture[str]) -> None:
    def secrets() -> list[str]:
        log.warning("token_file_unreadable")
        return ["canary"]

    configure_logs("json", "info", secrets=secrets)

    log.info("seen", token="canary")

    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["token_file_unreadable", "seen"]
    assert events[1]["token"] == "[secret]"


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize(
    "hostile", ["a\nforged", "a\rforged", "\x1b[2J", "\x9b2J", "a\u2028b", "\u202eabc", "\x00"]
)
def test_no_value_forges_a_line_or_commands_the_terminal(
    capsys: pytest.CaptureFixture[str], log_format: LogFormat, hostile: str
) -> None:
    start(log_format)

    log.info("seen", name=hostile, **{hostile: 1})

    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert not any(
        character in err[:-1] for character in hostile if not character.isalnum() and character != "["
    )


def test_a_traceback_keeps_its_lines_on_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    start("console")

    try:
        fail("with \x1b[31m colour")
    except ValueError:
        log.exception("failed")

    err = capsys.readouterr().err
    assert "Traceback" in err
    assert len(err.splitlines()) > 3
    assert "\x1b" not in err


def test_numbers_and_nothing_stay_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    start()

    log.info("seen", count=3, share=0.5, is_low=True, reset=None, names=["a"])

    event = logged(capsys)
    assert (event["count"], event["share"], event["is_low"], event["reset"]) == (3, 0.5, True, None)
    assert event["names"] == ["a"]


def test_colour_is_there_for_those_who_want_it(capsys: pytest.CaptureFixture[str]) -> None:
    start("console", has_colour=True)

    log.info("seen")

    assert "\x1b[" in capsys.readouterr().err


def test_plain_text_is_left_alone() -> None:
    assert escape_controls("plain ünïcode 日本語 [x] \\n") == "plain ünïcode 日本語 [x] \\n"


def test_a_program_that_has_set_up_its_own_logs_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with structlog.testing.capture_logs() as events:
        structlog.configure(processors=structlog.get_config()["processors"])
        configure_logs("json", "info", secrets=lambda: (), is_default=True)
        log.info("seen")

    assert [event["event"] for event in events] == ["seen"]
    assert capsys.readouterr().err == ""


def test_logs_are_set_up_once_and_before_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    own = Log()
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "structlog")
        own.set_up_with(lambda: calls.append("set up too early"))
        own.set_up_with(lambda: calls.append("set up"))
    assert calls == []

    with structlog.testing.capture_logs() as events:
        own.warning("first")
        own.warning("second")

    assert calls == ["set up"]
    assert [event["event"] for event in events] == ["first", "second"]

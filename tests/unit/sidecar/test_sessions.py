from holdfast.github.tokens import TokenSource
from holdfast.sidecar.sessions import (
    FAILURE_WINDOW_S,
    LINK_S,
    MOST_FAILURES,
    SESSION_S,
    Sessions,
    cookie_header,
    session_of,
)


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sessions(time: Time, token: str = "right") -> Sessions:
    return Sessions(TokenSource(token, None), is_needed=True, now=time)


def cookie(session: str | None) -> bytes:
    return f"holdfast_session={session}".encode()


def test_the_token_opens_a_session_that_ends() -> None:
    time = Time()
    known = sessions(time)
    session = known.log_in(" right ")

    assert known.is_known(cookie(session))
    assert not known.is_known(cookie("guessed"))
    assert not known.is_known(b"")
    time.now += SESSION_S
    assert not known.is_known(cookie(session))


def test_logging_out_ends_it_at_once() -> None:
    known = sessions(Time())
    session = known.log_in("right")

    known.log_out(cookie(session))

    assert not known.is_known(cookie(session))


def test_many_wrong_tokens_lock_the_login_for_a_while() -> None:
    time = Time()
    known = sessions(time)
    for _ in range(MOST_FAILURES):
        assert not known.is_locked()
        assert known.log_in("wrong") is None

    assert known.is_locked()
    time.now += FAILURE_WINDOW_S
    assert not known.is_locked()


def test_a_link_works_once_and_soon() -> None:
    time = Time()
    known = sessions(time)
    first, second = known.make_link(), known.make_link()

    assert known.is_known(cookie(known.redeem(first)))
    assert known.redeem(first) is None
    time.now += LINK_S
    assert known.redeem(second) is None
    assert known.redeem("") is None


def test_a_form_is_marked_for_its_session_alone() -> None:
    known = sessions(Time())
    mark = known.mark(cookie("a"))

    assert known.is_marked(cookie("a"), mark)
    assert not known.is_marked(cookie("b"), mark)
    assert not known.is_marked(cookie("a"), "")
    assert not sessions(Time()).is_marked(cookie("a"), mark)


def test_without_a_token_everyone_may_look() -> None:
    assert Sessions(TokenSource(None, None), is_needed=False).is_known(b"")


def test_nobody_logs_in_where_the_token_is_empty() -> None:
    assert sessions(Time(), token="").log_in("") is None


def test_a_cookie_is_for_this_site_and_no_script() -> None:
    assert cookie_header("x", is_secure=True) == (
        "holdfast_session=x; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
    )
    assert "Max-Age=0" in cookie_header("", is_secure=False)
    assert session_of(b"\xff;;=") == ""

"""Whether a server has GraphQL: believed, missed, asked for again."""

from structlog.testing import capture_logs

from holdfast.github.presence import ASK_AGAIN_S, GraphqlPresence
from tests.fakes.clock import VirtualClock


def test_server_is_believed_to_have_it_until_it_says_otherwise() -> None:
    presence = GraphqlPresence(VirtualClock())
    assert presence.is_likely

    presence.miss()

    assert not presence.is_likely


def test_server_that_had_none_is_asked_again_later() -> None:
    clock = VirtualClock()
    presence = GraphqlPresence(clock)
    presence.miss()

    clock.sleep(ASK_AGAIN_S)

    assert presence.is_likely


def test_absence_is_told_once_and_so_is_its_end() -> None:
    presence = GraphqlPresence(VirtualClock())
    with capture_logs() as logs:
        for learn in (presence.find, presence.miss, presence.miss, presence.find, presence.find):
            learn()

    assert [entry["event"] for entry in logs] == ["graphql_missing", "graphql_found"]

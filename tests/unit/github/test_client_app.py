"""The client as a GitHub App: signed questions, an installation found by the repository, clear refusals."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from holdfast.clock import SystemClock
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorTransport
from holdfast.errors import InvalidSettings, Refused, Throttled, Unavailable
from holdfast.github.app import AppTokenSource, make_signer, read_private_key, refuse_app
from holdfast.github.client import GitHubApp, GitHubClient
from holdfast.github.inspection import ReadRepository
from holdfast.github.patience import waiting_at_most
from tests.fakes.app import APP_ID, key_pair, registration

REPOSITORY = "acme/state"
OpenApp = Callable[..., GitHubApp]


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo=REPOSITORY, app=registration()))
    yield emulator
    emulator.close()


@pytest.fixture
def open_app(emulator: Emulator) -> Iterator[OpenApp]:
    opened: list[GitHubApp] = []

    def open_it(
        *,
        app_id: int = APP_ID,
        private_key: str = "",
        installation_id: int | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> GitHubApp:
        app = GitHubApp(
            REPOSITORY,
            sign=make_signer(str(app_id), private_key or key_pair()[0], SystemClock().now),
            installation_id=installation_id,
            api_url="http://github.test",
            transport=transport or EmulatorTransport(emulator),
        )
        opened.append(app)
        return app

    yield open_it
    for app in opened:
        app.close()


@pytest.mark.slow
@pytest.mark.parametrize("installation_id", [None, 77])
def test_token_of_the_installation_opens_the_repository(
    emulator: Emulator, open_app: OpenApp, installation_id: int | None
) -> None:
    clock = SystemClock()
    app = open_app(installation_id=installation_id)
    tokens = AppTokenSource(str(APP_ID), "acme", app.fetch, clock.now)
    transport = EmulatorTransport(emulator)
    with GitHubClient(
        REPOSITORY, token=tokens.token, api_url="http://github.test", clock=clock, transport=transport
    ) as client:
        client.perform(ReadRepository())
        client.perform(ReadRepository())

    paths = [entry.path for entry in emulator.journal.entries]
    asked = [] if installation_id else [f"/repos/{REPOSITORY}/installation"]
    assert paths == [*asked, "/app/installations/77/access_tokens", *[f"/repos/{REPOSITORY}"] * 2]
    assert (tokens.known() or "").startswith("ghs_")


def test_token_lasts_for_an_hour(open_app: OpenApp) -> None:
    token = open_app().fetch()

    assert 3590 < token.expires_at - SystemClock().now() <= 3600


def test_foreign_key_is_refused(open_app: OpenApp) -> None:
    with pytest.raises(Refused, match="JSON web token") as caught:
        open_app(private_key=key_pair(1)[0]).fetch()

    assert "HOLDFAST_APP_ID" in caught.value.advice


def test_foreign_app_is_refused(open_app: OpenApp) -> None:
    with pytest.raises(Refused, match="Integration not found"):
        open_app(app_id=1).fetch()


def test_app_that_is_not_installed_there_is_told(emulator: Emulator, open_app: OpenApp) -> None:
    emulator.change_options(app=registration(umbrella=78))

    with pytest.raises(Refused) as caught:
        open_app().fetch()
    assert "Install the App on this repository" in caught.value.advice


def test_key_that_is_none_is_told_without_its_text(open_app: OpenApp) -> None:
    with pytest.raises(Refused, match="private key cannot be used") as caught:
        open_app(private_key="hush-hush").fetch()

    assert "hush-hush" not in str(caught.value)


def test_server_that_is_away_is_told(open_app: OpenApp) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(Unavailable):
        open_app(transport=httpx.MockTransport(fail)).fetch()


def test_other_answers_have_their_own_errors() -> None:
    assert isinstance(refuse_app("/app", 500, None), Unavailable)
    assert isinstance(refuse_app("/app", 403, {"message": "This installation has been suspended"}), Refused)
    assert isinstance(refuse_app("/app", 403, {"message": "API rate limit exceeded"}), Throttled)


def test_key_comes_from_the_file_before_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("from the file")

    assert read_private_key("given", file) == "from the file"
    with pytest.raises(InvalidSettings, match="cannot be read"):
        read_private_key("given", tmp_path / "missing.pem")
    with pytest.raises(InvalidSettings, match="set HOLDFAST_APP_PRIVATE_KEY_FILE"):
        read_private_key(None, None)


def test_a_token_is_waited_for_no_longer_than_the_question_that_takes_it(open_app: OpenApp) -> None:
    given: list[dict[str, float]] = []

    def hang(request: httpx.Request) -> httpx.Response:
        given.append(request.extensions["timeout"])
        raise httpx.ReadTimeout("slow")

    with pytest.raises(Unavailable, match="did not answer in time"), waiting_at_most(3.0):
        open_app(transport=httpx.MockTransport(hang)).fetch()

    assert given == [dict.fromkeys(("connect", "read", "write", "pool"), 3.0)]

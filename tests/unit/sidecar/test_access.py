"""Which addresses need a token, and what a name is."""

from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.github.tokens import TokenSource
from holdfast.settings import Settings
from holdfast.sidecar.access import Access, check_binding
from holdfast.sidecar.problems import Problem


def settings(**given: object) -> Settings:
    return Settings.from_environment({}, given)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    check_binding(settings(host=host), TokenSource(None, None))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "holdfast.example", "localhost.example"])
def test_any_other_address_needs_one(host: str) -> None:
    with pytest.raises(InvalidSettings, match="HOLDFAST_API_TOKEN"):
        check_binding(settings(host=host), TokenSource(None, None))
    check_binding(settings(host=host), TokenSource("secret", None))


def test_a_file_without_a_token_is_no_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" \n")

    with pytest.raises(InvalidSettings, match="HOLDFAST_API_TOKEN_FILE"):
        check_binding(settings(api_token_file=file), TokenSource(None, file))


@pytest.mark.parametrize(("name", "is_known"), [("holdfast", True), ("HOLDFAST:1", True), ("hold", False)])
def test_more_names_can_be_allowed(name: str, is_known: bool) -> None:
    given = Settings.from_environment({"HOLDFAST_ALLOWED_HOSTS": "holdfast, Sidecar.internal ,"})
    access = Access(given, TokenSource(None, None))

    assert given.allowed_hosts == ("holdfast", "sidecar.internal")
    if is_known:
        access.check("/v1/runs", {b"host": name.encode()})
    else:
        with pytest.raises(Problem, match="HOLDFAST_ALLOWED_HOSTS"):
            access.check("/v1/runs", {b"host": name.encode()})


def test_an_address_that_means_all_is_no_name() -> None:
    access = Access(settings(host="0.0.0.0"), TokenSource(None, None))

    with pytest.raises(Problem):
        access.check("/healthz", {b"host": b"0.0.0.0"})

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
        access.check("/v1/runs", [name.encode()], {})
    else:
        with pytest.raises(Problem, match="HOLDFAST_ALLOWED_HOSTS"):
            access.check("/v1/runs", [name.encode()], {})


def test_an_address_that_means_all_is_no_name() -> None:
    access = Access(settings(host="0.0.0.0"), TokenSource(None, None))

    with pytest.raises(Problem):
        access.check("/healthz", [b"0.0.0.0"], {})


@pytest.mark.parametrize(
    "host", ["[::1].evil", "127.0.0.1:80.evil", "[::1]:8723.evil", "localhost:", "a@localhost"]
)
def test_a_host_is_matched_as_a_whole(host: str) -> None:
    access = Access(settings(), TokenSource(None, None))

    with pytest.raises(Problem) as caught:
        access.check("/v1/runs", [host.encode()], {})

    assert caught.value.code == "foreign_host"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", ""])
def test_what_a_page_of_another_site_asks_for_without_an_origin_is_refused(site: str) -> None:
    access = Access(settings(), TokenSource(None, None))

    with pytest.raises(Problem) as caught:
        access.check("/v1/runs", [b"127.0.0.1:8723"], {b"sec-fetch-site": site.encode()})

    assert (caught.value.status, caught.value.code) == (403, "foreign_origin")


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_what_a_user_types_in_is_answered(site: str) -> None:
    Access(settings(), TokenSource(None, None)).check(
        "/v1/runs", [b"127.0.0.1:8723"], {b"sec-fetch-site": site.encode()}
    )

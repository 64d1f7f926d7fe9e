"""The pages, as a browser gets them from a sidecar over HTTP."""

import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

import httpx
import pytest

from tests.fakes.sidecar import RunningSidecar, running_sidecar

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}\u202e"
PAGES = [
    "/",
    "/ui/fragments/overview",
    "/ui/runs",
    "/ui/runs?q=shown&status=in_progress&sort=run_id",
    "/ui/runs/shown",
    "/ui/runs/shown/checkpoints/1",
    "/ui/runs/shown/checkpoints/1?q=alert",
    "/ui/runs/shown/checkpoints/1?at=/long",
    "/ui/runs/shown/diff?from=1&to=2",
    "/ui/retention",
    "/ui/settings",
    "/ui/login",
]


@pytest.fixture(scope="module")
def shown(sidecar: RunningSidecar) -> RunningSidecar:
    """A sidecar with one run, in which everything is hostile."""
    for number in range(2):
        state = {HOSTILE: HOSTILE, "long": "x" * 5000, "number": number}
        answer = sidecar.client.post(
            "/v1/runs/shown/checkpoints?wait=verified",
            json={"trigger": "manual", "phase": HOSTILE, "workflow": HOSTILE, "state": state},
        )
        assert answer.status_code == 201
    return sidecar


@pytest.fixture(scope="module")
def with_token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSidecar]:
    with running_sidecar(tmp_path_factory.mktemp("guarded"), api_token="the-token") as running:
        yield running


@pytest.fixture
def guarded(with_token: RunningSidecar) -> RunningSidecar:
    """A sidecar with a token, and nobody who is logged in."""
    with_token.client.cookies.clear()
    return with_token


def mark_of(page: httpx.Response) -> str:
    found = re.search(r'name="mark" value="(\w+)"', page.text)
    assert found, page.text
    return found[1]


def act(sidecar: RunningSidecar, action: str, run_id: str = "shown", /, **fields: str) -> str:
    """Submit a form of a run's page, and return what the next page says."""
    page = sidecar.client.get(f"/ui/runs/{run_id}")
    form = {"mark": mark_of(page), **fields}
    answer = sidecar.client.post(f"/ui/runs/{run_id}/{action}", data=form)
    assert answer.status_code == 303, answer.text
    after = sidecar.client.get(answer.headers["location"])
    found = re.search(r'<p class="said" role="status">([^<]+)</p>', after.text)
    assert found, after.text
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_shown_with_all_that_is_foreign_as_text(shown: RunningSidecar, path: str) -> None:
    page = shown.client.get(path)

    assert page.status_code == 200, page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "<script>alert" not in page.text
    assert "&amp;49" not in page.text
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", page.text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page.text)
    assert len(page.content) < 100_000


def test_the_run_tells_where_it_goes_on_and_every_checkpoint(shown: RunningSidecar) -> None:
    text = shown.client.get("/ui/runs/shown").text

    assert "Resume point" in text
    assert text.count("data-checkpoint=") == 2
    assert "stored" in text


def test_a_checkpoint_has_its_receipt_its_raw_bytes_and_a_download(shown: RunningSidecar) -> None:
    text = shown.client.get("/ui/runs/shown/checkpoints/2").text
    raw = shown.client.get("/ui/runs/shown/checkpoints/2/raw")
    value = shown.client.get("/ui/runs/shown/checkpoints/2/raw?at=/number&download=1")

    assert "verified" in text
    assert "cp_002_manual.json" in text
    assert raw.json()["state_snapshot"]["number"] == 1
    assert value.content == b"1"
    assert value.headers["content-disposition"] == 'attachment; filename="shown-2.json"'


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ui/runs/nobody", 404),
        ("/ui/runs/shown/checkpoints/9", 404),
        ("/ui/runs/shown/checkpoints/x", 422),
        ("/ui/runs/shown/checkpoints/1?at=/none", 404),
        ("/ui/runs/shown/diff?from=1", 422),
    ],
)
def test_what_is_not_there_is_told_on_a_page(shown: RunningSidecar, path: str, status: int) -> None:
    page = shown.client.get(path)

    assert page.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert 'role="alert"' in page.text


@pytest.mark.parametrize("name", ["style.css", "live.js", "icon.svg"])
def test_static_files_are_served(shown: RunningSidecar, name: str) -> None:
    assert shown.client.get(f"/ui/static/{name}").status_code == 200


@pytest.mark.parametrize("name", ["nothing.css", "..%2Fpages.py", "__init__.py"])
def test_nothing_else_is(shown: RunningSidecar, name: str) -> None:
    assert shown.client.get(f"/ui/static/{name}").status_code in (404, 422)


@pytest.mark.slow
def test_a_run_that_waits_for_a_person_comes_first_and_is_decided(sidecar: RunningSidecar) -> None:
    sidecar.submit("tripped", trigger="circuit_breaker")

    assert "tripped" in sidecar.client.get("/").text
    assert "Retry what failed" in sidecar.client.get("/ui/runs/tripped").text
    said = act(sidecar, "review", "tripped", decision="continue", note="looks fine", by="Ada")

    assert said.startswith("Decided: continue. Checkpoint 2 is ")
    assert "Retry what failed" not in sidecar.client.get("/ui/runs/tripped").text


def test_a_decision_that_nothing_waits_for_is_said_to_be_not_done(shown: RunningSidecar) -> None:
    assert act(shown, "review", decision="continue").startswith("Not done: ")


@pytest.mark.slow
def test_a_run_is_rolled_back_preserved_completed_and_deleted(sidecar: RunningSidecar) -> None:
    for number in range(2):
        sidecar.client.post(
            "/v1/runs/ended/checkpoints?wait=verified", json={"trigger": "manual", "state": {"n": number}}
        )

    assert act(sidecar, "rollback", "ended", at="1").startswith("Rolled back to checkpoint 1.")
    assert act(sidecar, "rollback", "ended", at="x").startswith("Not done: ")
    assert act(sidecar, "preserve", "ended") == "Retention will never touch this run."
    assert act(sidecar, "complete", "ended", status="failed").startswith("The run is failed.")
    assert act(sidecar, "delete", "ended", name="ended").startswith("Not done: ")
    assert act(sidecar, "preserve", "ended", remove="1") == "Retention may clean up this run again."
    assert act(sidecar, "delete", "ended", name="wrong").startswith("Not deleted: type the name")
    assert act(sidecar, "delete", "ended", name="ended") == "Deleted ended."
    assert sidecar.client.get("/ui/runs/ended").status_code == 404


def test_a_clean_up_says_what_it_did(shown: RunningSidecar) -> None:
    form = {"mark": mark_of(shown.client.get("/ui/runs/shown"))}
    answer = shown.client.post("/ui/retention", data=form)

    assert answer.status_code == 303
    assert "Deleted 0 files of 0 runs." in shown.client.get(answer.headers["location"]).text


@pytest.mark.parametrize("mark", ["", "0" * 64])
def test_a_form_of_another_page_is_refused(shown: RunningSidecar, mark: str) -> None:
    answer = shown.client.post("/ui/runs/shown/delete", data={"mark": mark, "name": "shown"})

    assert answer.status_code == 403
    assert shown.client.get("/ui/runs/shown").status_code == 200


def test_who_is_not_logged_in_is_led_to_the_login(guarded: RunningSidecar) -> None:
    for path in ("/", "/ui/runs", "/ui/settings"):
        answer = guarded.client.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].partition("?")[0] == "/ui/login"
    assert guarded.client.get("/v1/events").status_code == 401
    assert guarded.client.get("/ui/login").status_code == 200


def test_the_token_logs_in_for_pages_and_events_but_not_for_the_api(guarded: RunningSidecar) -> None:
    wrong = guarded.client.post("/ui/login", data={"token": "wrong"})
    right = guarded.client.post("/ui/login", data={"token": "the-token"})
    cookie = {"Cookie": right.headers["set-cookie"].partition(";")[0]}

    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert right.headers["location"] == "/"
    assert "HttpOnly; SameSite=Strict" in right.headers["set-cookie"]
    overview = guarded.client.get("/", headers=cookie)
    assert overview.status_code == 200
    assert "the-token" not in overview.text
    assert guarded.client.get("/v1/runs", headers=cookie).status_code == 401
    with guarded.client.stream("GET", "/v1/events", headers=cookie) as stream:
        assert stream.status_code == 200
    out = guarded.client.post("/ui/logout", data={"mark": mark_of(overview)}, headers=cookie)
    assert out.headers["location"] == "/ui/login"
    assert guarded.client.get("/", headers=cookie).status_code == 303


def test_who_logs_in_gets_the_page_that_was_asked_for(guarded: RunningSidecar) -> None:
    led = guarded.client.get("/ui/runs/build-1").headers["location"]
    asked = guarded.client.get(led)
    found = re.search(r'name="next" value="([^"]*)"', asked.text)
    assert found
    entered = guarded.client.post("/ui/login", data={"token": "the-token", "next": found[1]})

    assert (led, entered.headers["location"]) == ("/ui/login?next=/ui/runs/build-1", "/ui/runs/build-1")


@pytest.mark.parametrize(
    "wanted", ["//evil.example/ui/", "https://evil.example/", "/v1/runs", "/ui/\\x", "/ui/?a\nb"]
)
def test_a_login_leads_nowhere_else(guarded: RunningSidecar, wanted: str) -> None:
    entered = guarded.client.post("/ui/login", data={"token": "the-token", "next": wanted})

    assert entered.headers["location"] == "/"


def test_a_link_on_another_site_leads_through_an_empty_page(guarded: RunningSidecar) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    linked = guarded.client.get("/ui/runs/build-1", headers=foreign)
    framed = guarded.client.get("/ui/runs/build-1", headers={**foreign, "Sec-Fetch-Dest": "iframe"})
    called = guarded.client.get("/v1/runs", headers=foreign)

    assert (linked.status_code, framed.status_code, called.status_code) == (200, 403, 403)
    assert 'http-equiv="refresh" content="0"' in linked.text
    assert "build-1" not in linked.text
    assert "frame-ancestors 'none'" in linked.headers["content-security-policy"]


def test_an_address_cannot_make_a_page_say_something(shown: RunningSidecar) -> None:
    page = shown.client.get("/ui/settings?said=Your+token+was+stolen")

    assert "stolen" not in page.text
    assert 'class="said"' not in page.text


def test_a_login_link_works_once(guarded: RunningSidecar) -> None:
    assert guarded.client.post("/v1/login-link").status_code == 401
    made = guarded.client.post("/v1/login-link", headers={"Authorization": "Bearer the-token"})
    path = made.json()["path"]

    first, second = guarded.client.get(path), guarded.client.get(path)

    assert (made.status_code, first.status_code, second.status_code) == (201, 303, 401)
    assert "set-cookie" in first.headers


def test_behind_tls_the_cookie_is_for_tls_alone(guarded: RunningSidecar) -> None:
    headers = {"X-Forwarded-Proto": "https"}
    answer = guarded.client.post("/ui/login", data={"token": "the-token"}, headers=headers)

    assert answer.headers["set-cookie"].endswith("; Secure")


@pytest.mark.slow
def test_many_wrong_tokens_are_held_off(tmp_path: Path) -> None:
    with running_sidecar(tmp_path, api_token="the-token") as sidecar:
        answers = [sidecar.client.post("/ui/login", data={"token": "wrong"}).status_code for _ in range(11)]

        assert answers == [401] * 10 + [429]
        assert sidecar.client.post("/ui/login", data={"token": "the-token"}).status_code == 429


@pytest.mark.slow
def test_a_large_state_does_not_make_a_large_page(sidecar: RunningSidecar) -> None:
    state = {"blob": "x" * 3_000_000, "many": [{"n": n} for n in range(20_000)]}
    sidecar.submit("large", state=state)

    page = sidecar.client.get("/ui/runs/large/checkpoints/1")
    whole = sidecar.client.get("/ui/runs/large/checkpoints/1?at=/blob")

    assert len(page.content) < 100_000
    assert len(whole.content) < 700_000
    assert "Cut here" in whole.text


@pytest.mark.slow
def test_a_page_that_follows_along_costs_github_nothing(tmp_path: Path) -> None:
    with running_sidecar(tmp_path) as sidecar:
        sidecar.client.post("/v1/runs/a/checkpoints?wait=verified", json={"trigger": "manual", "state": {}})
        sidecar.client.get("/ui/runs/a")
        journal = sidecar.assembly.embedded.emulator.journal
        before = len(journal)

        with sidecar.client.stream("GET", "/v1/events") as events:
            assert events.status_code == 200
            for _ in range(20):
                assert sidecar.client.get("/ui/fragments/overview").status_code == 200

        assert len(journal) == before


def test_a_form_of_too_many_fields_is_refused_in_words(guarded: RunningSidecar) -> None:
    answer = guarded.client.post("/ui/login", data={f"a{number}": "1" for number in range(60)})

    assert answer.status_code == 400
    assert "too many fields" in answer.text


def test_a_run_that_is_not_known_is_said_to_be_not_known(shown: RunningSidecar) -> None:
    page = shown.client.get("/ui/runs/nobody")

    assert page.status_code == 404
    assert "there is no run &#39;nobody&#39;" in page.text


def store(sidecar: RunningSidecar, run_id: str, **fields: object) -> None:
    body = {"trigger": "manual", **fields}
    answer = sidecar.client.post(f"/v1/runs/{run_id}/checkpoints?wait=verified", json=body)
    assert answer.status_code == 201, answer.text


@pytest.mark.slow
def test_the_overview_tells_why_a_run_waits_and_since_when_and_follows_along_by_itself(
    tmp_path: Path,
) -> None:
    with running_sidecar(tmp_path) as sidecar:
        store(sidecar, "other", state={})
        sidecar.client.get("/")
        journal = sidecar.assembly.embedded.emulator.journal

        opened = {"circuit_breaker_state": {"status": "open", "reason": "5 errors"}}
        store(sidecar, "stuck", trigger="circuit_breaker", state=opened)
        since = sidecar.client.get("/v1/runs/stuck/resume").json()["review"]["since"]
        store(sidecar, "stuck", state=opened)
        before = len(journal)
        fragment = sidecar.client.get("/ui/fragments/overview").text
        assert len(journal) == before

        page = sidecar.client.get("/").text

        for text in (fragment, page):
            assert "circuit breaker: 5 errors" in text
            assert f'since <time datetime="{since}"' in text
            assert ">other<" not in text


def log_in(sidecar: RunningSidecar) -> dict[str, str]:
    answer = sidecar.client.post("/ui/login", data={"token": "the-token"})
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_who_logs_out_hears_no_more_events(guarded: RunningSidecar) -> None:
    cookie = log_in(guarded)
    mark = mark_of(guarded.client.get("/", headers=cookie))

    with guarded.client.stream("GET", "/v1/events", headers=cookie) as stream:
        pieces = stream.iter_text()
        assert next(pieces) == "retry: 3000\n\n"
        guarded.client.post("/ui/logout", data={"mark": mark}, headers=cookie)
        assert list(pieces) == []  # the stream ends


def test_a_link_keeps_its_query_through_the_login(guarded: RunningSidecar) -> None:
    wanted = "/ui/runs?q=nightly%20build&status=failed"
    led = guarded.client.get(wanted).headers["location"]
    found = re.search(r'name="next" value="([^"]*)"', guarded.client.get(led).text)
    assert found
    entered = guarded.client.post("/ui/login", data={"token": "the-token", "next": unescape(found[1])})

    assert entered.headers["location"] == wanted


def test_what_was_typed_is_shown_again_after_the_session_has_ended(guarded: RunningSidecar) -> None:
    typed = {"mark": "x", "decision": "continue", "note": HOSTILE}
    answer = guarded.client.post("/ui/runs/a/review", data=typed)

    assert answer.status_code == 401
    assert "Your session has ended, so nothing was done" in answer.text
    assert escape(HOSTILE) in answer.text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
    assert "<script>alert" not in answer.text
    assert 'href="/ui/runs/a"' in answer.text
    assert guarded.client.post("/ui/logout", data={}).headers["location"] == "/ui/login"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui/nothing", 404),
        ("PUT", "/ui/runs", 405),
        ("POST", "/ui/runs/shown/review", 415),
        ("POST", "/ui/runs/..x/review", 422),
        ("GET", "/ui/static/nothing.css", 404),
    ],
)
def test_refusals_are_pages(shown: RunningSidecar, method: str, path: str, status: int) -> None:
    page = shown.client.request(method, path)

    assert page.status_code == status
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in page.text


def test_a_stranger_is_told_nothing_of_the_repository(shown: RunningSidecar, guarded: RunningSidecar) -> None:
    foreign = shown.client.get("/", headers={"Host": "evil.example"})
    login = guarded.client.get("/ui/login")

    assert (foreign.status_code, login.status_code) == (403, 200)
    for page in (foreign, login):
        assert "holdfast/checkpoints" not in page.text
        assert 'name="mark"' not in page.text


@pytest.mark.slow
def test_a_page_tells_whether_its_run_is_preserved(sidecar: RunningSidecar) -> None:
    store(sidecar, "dear", state={})
    pages = [sidecar.client.get("/ui/runs/dear").text]
    act(sidecar, "preserve", "dear")
    pages.append(sidecar.client.get("/ui/runs/dear").text)
    journal = sidecar.assembly.embedded.emulator.journal
    before = len(journal)
    sidecar.client.get("/ui/runs/dear")

    assert ["This run is preserved" in page for page in pages] == [False, True]
    assert ["This run is not preserved" in page for page in pages] == [True, False]
    assert len(journal) - before <= 1  # whether the branch has moved


@pytest.mark.slow
def test_a_run_that_waits_is_not_completed_past_its_review(sidecar: RunningSidecar) -> None:
    store(sidecar, "held", trigger="escalation", state={})

    assert "Not done: the run waits for a person" in act(sidecar, "complete", "held", status="completed")
    refused = sidecar.client.post("/v1/runs/held/complete")
    assert (refused.status_code, refused.json()["code"]) == (409, "waits_for_review")

    assert act(sidecar, "review", "held", decision="stop").startswith("Decided: stop.")
    assert "Not done: the run was stopped" in act(sidecar, "complete", "held", status="completed")
    page = sidecar.client.get("/ui/runs/held").text
    assert '<span class="badge failed">' in page


@pytest.mark.slow
def test_the_end_of_a_run_says_that_a_clean_up_follows_and_what_it_deleted(tmp_path: Path) -> None:
    with running_sidecar(tmp_path, keep_checkpoints=1) as sidecar:
        for number in range(3):
            store(sidecar, "trimmed", state={"number": number})
        store(sidecar, "ended", state={})

        assert "a clean-up by the rules follows" in act(sidecar, "complete", "ended")
        for _ in range(500):  # the clean-up follows once the end is stored
            told = sidecar.client.get("/ui/retention").text
            if "because a run had ended" in told:
                break

        assert re.search(r"files of \d+ runs \(<span class=\"names\">[^<]*trimmed", told), told

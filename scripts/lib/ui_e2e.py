"""Looks at the dashboard with a real browser. Run it by scripts/ui-e2e."""

import argparse
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from holdfast.sidecar.watch import LOOK_EVERY_S  # noqa: E402
from tests.fakes.sidecar import RunningSidecar, running_sidecar  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'&\u202e"
TOKEN = "the-token"
KEPT = 8
BURST = 400
BATCH = 60
LARGE_BYTES = 30_000_000
# Nothing here is a measurement: a machine that is busy with something else fails no check.
TIMEOUT_MS = 180_000
STYLES = ("phases", "layers", "agents", "tasks", "steps")
CHECKS: list[Callable[["Visitor"], None]] = []


def check(function: Callable[["Visitor"], None]) -> Callable[["Visitor"], None]:
    """Add a check to the list."""
    CHECKS.append(function)
    return function


class Visitor:
    """A browser before a sidecar with some runs; what goes wrong in the page is noted."""

    def __init__(self, browser: Browser, sidecar: RunningSidecar, axe: str) -> None:
        self.browser = browser
        self.sidecar = sidecar
        self.url = str(sidecar.client.base_url)
        self.axe = axe
        self.troubles: list[str] = []
        self.other_sites: list[str] = []

    @contextmanager
    def page(self, **options: Any) -> Iterator[Page]:
        """Give a page that is logged in, unless told otherwise."""
        is_logged_in = options.pop("is_logged_in", True)
        context = self.browser.new_context(**options)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self.troubles.append(f"error in the page: {error}"))
        page.on("dialog", lambda dialog: self.troubles.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: self._request(request.url))
        if is_logged_in:
            page.goto(f"{self.url}/ui/login")
            page.fill("input[name=token]", TOKEN)
            page.click("main button")
        try:
            yield page
        finally:
            context.close()

    def _console(self, kind: str, text: str) -> None:
        # The status of pages that are to be refused is told there, too.
        if kind == "error" and "the server responded with a status of 4" not in text:
            self.troubles.append(f"console: {text}")

    def _request(self, url: str) -> None:
        if not url.startswith((self.url, "data:", *self.other_sites)):
            self.troubles.append(f"a request to another host: {url}")

    def run(self, run_id: str, name: str) -> str:
        """Return the address of a page of a run."""
        return f"{self.url}/ui/runs/{run_id}{name}"


@contextmanager
def other_site(link: str) -> Iterator[str]:
    """Give the address of a page of another site that links to ours."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<link rel="icon" href="data:,"><a href="{link}">the run</a>'.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        # Another name for the same machine is another site.
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


def pages(visitor: Visitor) -> dict[str, str]:
    """Return every page by a name."""
    first = {style: visitor.run(f"{style}-run", "") for style in STYLES}
    return {
        "overview": f"{visitor.url}/",
        "runs": f"{visitor.url}/ui/runs",
        **{f"run-{style}": address for style, address in first.items()},
        "checkpoint": visitor.run("phases-run", "/checkpoints/1"),
        "search": visitor.run("phases-run", "/checkpoints/1?q=a"),
        "diff": visitor.run("phases-run", "/diff?from=1&to=2"),
        "retention": f"{visitor.url}/ui/retention",
        "settings": f"{visitor.url}/ui/settings",
        "problem": visitor.run("nobody", ""),
        "hostile": visitor.run("hostile", "/checkpoints/1"),
        "large": visitor.run("large", "/checkpoints/1"),
    }


@check
def every_page_is_accessible_in_light_and_dark_and_on_a_phone(visitor: Visitor) -> None:
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 390)):
        with visitor.page(color_scheme=scheme, viewport={"width": width, "height": 900}) as page:
            for name, address in pages(visitor).items():
                page.goto(address)
                page.evaluate(visitor.axe)
                found = page.evaluate(
                    "async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html)])"
                )
                assert not found, f"{name}, {scheme}, {width}: {found}"
                overflow = page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert overflow <= 0, f"{name} is {overflow} pixels too wide at {width}"
            page.click("text=Log out")
            page.evaluate(visitor.axe)
            found = page.evaluate("async () => (await axe.run()).violations.map(v => v.id)")
            assert not found, f"login, {scheme}, {width}: {found}"


@check
def hostile_content_is_text(visitor: Visitor) -> None:
    with visitor.page() as page:
        for address in (
            visitor.run("hostile", ""),
            visitor.run("hostile", "/checkpoints/1"),
            f"{visitor.url}/ui/runs",
        ):
            page.goto(address)
            assert page.locator("main img").count() == 0
            assert page.locator("main script").count() == 0


@check
def the_login_takes_only_the_token(visitor: Visitor) -> None:
    with visitor.page(is_logged_in=False) as page:
        page.goto(visitor.url)
        assert page.url.endswith("/ui/login")
        page.fill("input[name=token]", "wrong")
        page.click("main button")
        assert "That is not the token" in page.inner_text("main")
        page.fill("input[name=token]", TOKEN)
        page.click("main button")
        assert page.inner_text("h1") == "Overview"
        page.click("text=Log out")
        assert page.url.endswith("/ui/login")


@check
def a_review_is_decided(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(visitor.url)
        page.click("a:text-is('tripped')")
        page.fill("input[name=note]", "looks fine")
        page.click("text=Retry what failed")
        assert page.inner_text("main .said").startswith("Decided: retry.")


@check
def a_review_can_go_on_or_stop(visitor: Visitor) -> None:
    with visitor.page() as page:
        for run_id, button, said in (
            ("tripped-too", "Continue", "Decided: continue."),
            ("tripped-three", "Stop the run", "Decided: stop."),
        ):
            page.goto(visitor.run(run_id, ""))
            assert page.locator(f"button:text-is('{button}')").count() == 1, page.inner_text("main")
            page.click(f"button:text-is('{button}')")
            assert page.inner_text("main .said").startswith(said), page.inner_text("main .said")


@check
def a_deletion_asks_for_the_name(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(visitor.run("followed", ""))
        page.click("summary:text-is('Delete')")
        page.fill("input[name=name]", "another")
        page.click("text=Delete for good")
        assert page.inner_text("main .said").startswith("Not deleted"), page.inner_text("main .said")


@check
def a_clean_up_shows_what_would_go_and_does_it(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(f"{visitor.url}/ui/retention")
        assert "many" in page.inner_text("main table")
        page.click("text=Clean up now")
        said = page.inner_text("main .said")
        assert re.match(r"Deleted [1-9]\d* files of \d+ runs\.", said), said
        assert "Nothing would go." in page.inner_text("main table"), page.inner_text("main")


@check
def a_link_on_another_site_leads_to_the_page_with_its_session(visitor: Visitor) -> None:
    with visitor.page() as page, other_site(visitor.run("followed", "")) as address:
        visitor.other_sites.append(address)
        page.goto(address)
        page.click("a")
        page.wait_for_selector("h1")
        assert page.inner_text("h1").startswith("followed")


@check
def a_login_link_logs_in_once(visitor: Visitor) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    path = visitor.sidecar.client.post("/v1/login-link", headers=headers).json()["path"]
    for is_first in (True, False):
        with visitor.page(is_logged_in=False) as page:
            page.goto(visitor.url + path)
            assert (page.inner_text("h1") == "Overview") is is_first


@check
def a_run_is_rolled_back_preserved_completed_and_deleted(visitor: Visitor) -> None:
    with visitor.page() as page:
        do_everything(page, visitor, "doomed")


@check
def everything_can_be_done_without_javascript(visitor: Visitor) -> None:
    with visitor.page(java_script_enabled=False) as page:
        do_everything(page, visitor, "doomed-too")
        page.goto(visitor.run("tripped-four", ""))
        page.click("text=Retry what failed")
        assert page.inner_text("main .said").startswith("Decided: retry.")


def do_everything(page: Page, visitor: Visitor, run_id: str) -> None:
    """Carry out each action of a run's page; each must say what it did."""
    page.goto(visitor.run(run_id, ""))
    for summary, fill, button, said in (
        ("Roll back", ("at", "1"), "Roll back", "Rolled back to checkpoint 1."),
        ("Preserve", None, "Never clean up", "Retention will never touch this run."),
        ("Preserve", None, "Clean up again", "Retention may clean up this run again."),
        ("Complete", None, "End the run", "The run is completed."),
        ("Delete", ("name", run_id), "Delete for good", f"Deleted {run_id}."),
    ):
        form = page.locator("details", has=page.locator(f"summary:text-is('{summary}')"))
        page.click(f"summary:text-is('{summary}')")
        if fill:
            form.locator(f"input[name={fill[0]}]").fill(fill[1])
        form.locator(f"button:text-is('{button}')").click()
        assert page.inner_text("main .said").startswith(said), page.inner_text("main .said")


@check
def pages_follow_along(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(visitor.run("followed", ""))
        page.wait_for_selector("#live:text-matches('^Live')")
        submit(visitor.sidecar, "followed", state={"new": True})
        page.wait_for_selector("#news:not([hidden])")
        assert re.match(r"Checkpoint 2 is \w+\.", page.inner_text("#news"))
        page.goto(visitor.url)
        page.wait_for_selector("#live:text-matches('^Live')")
        with page.expect_response(lambda answer: "fragments" in answer.url):
            submit(visitor.sidecar, "followed", state={"new": 2})


@check
def everything_can_be_read_without_javascript(visitor: Visitor) -> None:
    with visitor.page(java_script_enabled=False) as page:
        for address in pages(visitor).values():
            page.goto(address)
            assert page.locator("h1").count() == 1


@check
def the_list_of_runs_that_wait_follows_along(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(visitor.url)
        page.wait_for_selector("#live:text-matches('^Live')")
        submit(visitor.sidecar, "stuck", trigger="escalation", state={"escalation": "which door?"})
        page.wait_for_selector("a:text-is('stuck')")
        assert "escalation: which door?" in page.inner_text(".attention"), page.inner_text(".attention")
        page.goto(f"{visitor.url}/ui/runs")
        page.wait_for_selector("#live:text-matches('^Live')")
        submit(visitor.sidecar, "brand-new", state={})
        page.wait_for_selector("#news:not([hidden])")
        assert "brand-new" in page.inner_text("#news")


@check
def runs_are_searched_filtered_sorted_and_turned(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(f"{visitor.url}/ui/runs?sort=run_id")
        assert page.locator("tbody tr").count() == 50
        page.click("a[rel=next]")
        assert "page 2 of" in page.inner_text("main")
        page.fill("input[name=q]", "batch-07")
        page.click("text=Show")
        assert page.locator("tbody tr").count() == 1
        page.goto(f"{visitor.url}/ui/runs")
        page.check("input[name=review]")
        page.click("text=Show")
        assert "tripped-five" in page.inner_text("tbody")
        assert "batch" not in page.inner_text("tbody")


@check
def times_are_in_the_readers_zone_with_utc_beside(visitor: Visitor) -> None:
    with visitor.page(timezone_id="Asia/Tokyo", locale="en-GB") as page:
        page.goto(visitor.run("followed", ""))
        moment = page.locator("tbody time").first
        text, utc = moment.inner_text(), moment.get_attribute("datetime") or ""
        hour = (int(utc[11:13]) + 9) % 24
        assert f"{hour:02d}{utc[13:19]}" in text, (text, utc)
        assert f"{utc[11:19]} UTC" in text, (text, utc)
        assert re.search(r"(second|minute|hour)s? ago|now", text), text


@check
def a_large_state_is_opened_searched_and_downloaded(visitor: Visitor) -> None:
    with visitor.page() as page:
        answer = page.goto(visitor.run("large", "/checkpoints/1"))
        assert answer
        assert len(answer.body()) < 100_000
        rows = page.locator("details:has(> summary > .key:text-is('rows'))")
        is_open = rows.get_attribute("open") is not None
        rows.locator("> summary").click()
        assert (rows.get_attribute("open") is not None) is not is_open
        page.click("li:has(> .key:text-is('blob')) a:text-is('whole')")
        assert "Cut here" in page.inner_text("main")
        page.goto(visitor.run("large", "/checkpoints/1"))
        page.fill("input[name=q]", "needle")
        page.click("main form[role=search] button")
        assert page.inner_text(".found a") == "/hay"
        page.goto(visitor.run("large", "/checkpoints/1"))
        with page.expect_download() as download:
            page.click("text=Download")
        assert download.value.suggested_filename == "large-1.json"
        assert Path(download.value.path()).stat().st_size > LARGE_BYTES


@check
def what_was_typed_is_not_lost_when_the_session_ends(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(visitor.run("tripped-five", ""))
        page.wait_for_selector("#live:text-matches('^Live')")
        other = page.context.new_page()
        other.goto(visitor.url)
        other.click("text=Log out")
        page.wait_for_selector("#live:text-matches('^Not live any more')")
        page.fill("input[name=note]", "because of the moon")
        page.click("button:text-is('Continue')")
        assert "nothing was done" in page.inner_text("main")
        assert "because of the moon" in page.inner_text("main")
        page.click("text=Open the page again")
        page.fill("input[name=token]", TOKEN)
        page.click("main button")
        assert page.inner_text("h1").startswith("tripped-five")


@check
def the_keyboard_is_enough(visitor: Visitor) -> None:
    with visitor.page() as page:
        page.goto(f"{visitor.url}/ui/runs")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        for _ in range(4):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")
        page.goto(visitor.run("followed", ""))
        page.locator("summary:text-is('Preserve')").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("main .said:not([hidden])")
        assert "never touch" in page.inner_text("main .said")


def submit(sidecar: RunningSidecar, run_id: str, *, is_awaited: bool = True, **fields: Any) -> None:
    """Save a checkpoint and, unless told otherwise, wait until it is stored."""
    body = {"trigger": "manual", "state": {}, **fields}
    headers, wait = {"Authorization": f"Bearer {TOKEN}"}, "?wait=verified" if is_awaited else ""
    answer = sidecar.client.post(f"/v1/runs/{run_id}/checkpoints{wait}", json=body, headers=headers)
    assert answer.status_code in (201, 202), answer.text


def fill(sidecar: RunningSidecar) -> None:
    """Make runs of every style, and some that are looked for."""
    import json

    for style in STYLES:
        for sample in sorted((ROOT / "fixtures" / "checkpoints" / style).glob("*.json"))[:4]:
            fields = json.loads(sample.read_text("utf-8"))
            kept = {
                name: fields[name]
                for name in ("trigger", "phase", "state", "state_snapshot", "workflow")
                if name in fields
            }
            kept["state"] = kept.pop("state_snapshot", None) or kept.get("state", {})
            submit(sidecar, f"{style}-run", **kept)
    submit(sidecar, "hostile", phase=HOSTILE, workflow=HOSTILE, state={HOSTILE: [HOSTILE]})
    for run_id in ("tripped", *(f"tripped-{number}" for number in ("too", "three", "four", "five"))):
        tripped = {"circuit_breaker_state": {"status": "open", "reason": "three failures in a row"}}
        submit(sidecar, run_id, trigger="circuit_breaker", phase="phase_2_build", state=tripped)
    # More than retention keeps.
    for number in range(KEPT + 4):
        submit(sidecar, "many", state={"number": number})
    for run_id in ("doomed", "doomed-too", "followed"):
        submit(sidecar, run_id, state={"answer": 42})
    rows = [{"number": number} for number in range(20_000)]
    submit(sidecar, "large", state={"blob": "x" * LARGE_BYTES, "hay": "needle", "rows": rows})
    for number in range(BATCH):
        submit(sidecar, f"batch-{number:02d}", is_awaited=number == BATCH - 1, workflow="nightly.yml")


def draw(visitor: Visitor, folder: Path) -> None:
    """Take a picture of each page."""
    shown = {name for name in pages(visitor) if name not in ("search", "problem", "hostile", "large")}
    for number in range(BURST):
        submit(visitor.sidecar, f"nightly-{number % 40}", is_awaited=False, state={"number": number})
    time.sleep(4 * LOOK_EVERY_S)  # so that the queue is seen to rise and to fall
    for scheme in ("light", "dark"):
        with visitor.page(color_scheme=scheme, viewport={"width": 1100, "height": 800}) as page:
            for name, address in pages(visitor).items():
                if name in shown and (scheme == "light" or name == "overview"):
                    page.goto(address)
                    suffix = "" if scheme == "light" else "-dark"
                    page.screenshot(path=folder / f"dashboard-{name}{suffix}.png")


def main() -> int:
    """Run every check; return how many failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--axe", type=Path, required=True)
    parser.add_argument("--pictures", action="store_true")
    names = [each.__name__ for each in CHECKS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CHECK", help="only these checks")
    arguments = parser.parse_args()
    failed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        running_sidecar(Path(folder), api_token=TOKEN, keep_checkpoints=KEPT, cleanup_every=None) as sidecar,
        sync_playwright() as playwright,
    ):
        fill(sidecar)
        flags = [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
        ]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        visitor = Visitor(browser, sidecar, arguments.axe.read_text("utf-8"))
        if arguments.pictures:
            draw(visitor, ROOT / "docs" / "pictures")
        chosen = [each for each in CHECKS if arguments.only is None or each.__name__ in arguments.only]
        for each in chosen:
            visitor.troubles.clear()
            try:
                each(visitor)
                assert not visitor.troubles, visitor.troubles
                print(f"passed  {each.__name__}")
            except Exception as error:
                failed += 1
                print(f"FAILED  {each.__name__}: {error}")
        browser.close()
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())

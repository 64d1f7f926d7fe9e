"""One trace from the program's step to the verified commit; nothing of it where nobody asks."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.library import Holdfast
from holdfast.logs import configure_logs, log
from holdfast.settings import Settings
from holdfast.settings.file import load_settings
from holdfast.tracing import ExtraMissing, Traces, asks_for_traces, traces
from tests.fakes.sidecar import running_sidecar

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = 0x0AF7651916CD43DD8448EB211C80319C


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces.begin(provider)
    yield exporter
    traces.end()


@pytest.fixture(params=["contents", "commit"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    given = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_WRITE_MODE": request.param}
    return load_settings(given)


def by_name(spans: tuple[ReadableSpan, ...]) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans}


def context_of(span: ReadableSpan) -> Any:
    assert span.context is not None
    return span.context


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


@pytest.mark.slow
def test_a_programs_step_and_the_verified_commit_are_one_trace(
    exporter: InMemorySpanExporter, settings: Settings
) -> None:
    with Holdfast(settings) as hf:
        with traces.span("the program's step"):
            receipt = hf.save("a", {"answer": 42})
        hf.drain()
        found = hf.receipt(receipt.checkpoint_id)

    spans = by_name(exporter.get_finished_spans())
    step, save, queue, drain = (
        spans[name] for name in ("the program's step", "holdfast.save", "holdfast.queue", "holdfast.drain")
    )
    assert parent_of(save) == context_of(step).span_id
    assert parent_of(queue) == parent_of(drain) == context_of(save).span_id
    writing = "GitHub CommitFiles" if settings.write_mode == "commit" else "GitHub WriteFile"
    for name in (writing, "holdfast.verify"):
        assert context_of(spans[name]).trace_id == context_of(step).trace_id
    assert found is not None
    assert drain.attributes is not None
    assert drain.attributes["holdfast.commit"] == found.commit_sha
    assert drain.attributes["holdfast.checkpoint_id"] == receipt.checkpoint_id


@pytest.mark.slow
def test_a_step_for_many_traces_has_a_span_in_each_with_a_link(
    exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    settings = load_settings({"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_WRITE_MODE": "commit"})
    with Holdfast(settings) as hf:
        for number in range(3):
            hf.save(f"run-{number}", {})
        hf.drain()

    spans = exporter.get_finished_spans()
    saves = [span for span in spans if span.name == "holdfast.save"]
    drains = {context_of(span).trace_id: span for span in spans if span.name == "holdfast.drain"}
    assert {context_of(span).trace_id for span in saves} == set(drains)
    linked = [span for span in drains.values() if span.links]
    (first,) = (span for span in drains.values() if not span.links)
    assert {link.context.span_id for span in linked for link in span.links} == {context_of(first).span_id}


@pytest.mark.slow
def test_the_trace_of_an_http_call_goes_on_to_the_commit(
    exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    with running_sidecar(tmp_path) as sidecar:
        answer = sidecar.client.post(
            "/v1/runs/a/checkpoints?wait=verified&timeout=60",
            json={"trigger": "manual", "state": {}},
            headers={"traceparent": PARENT},
        )
        assert answer.status_code == 201
        stored = sidecar.client.get("/v1/runs/a/checkpoints/1").json()

    spans = [span for span in exporter.get_finished_spans() if context_of(span).trace_id == TRACE]
    assert {"holdfast.save", "holdfast.queue", "holdfast.drain"} <= {span.name for span in spans}
    assert stored["traceparent"].split("-")[1] == PARENT.split("-")[1]


@pytest.mark.slow
def test_a_header_that_is_no_traceparent_begins_a_trace_of_its_own(
    exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    with running_sidecar(tmp_path) as sidecar:
        sent = {"trigger": "manual", "state": {}}
        answer = sidecar.client.post("/v1/runs/a/checkpoints", json=sent, headers={"traceparent": "x"})

    assert answer.status_code == 202
    assert any(span.name == "holdfast.save" for span in exporter.get_finished_spans())


@pytest.mark.slow
def test_the_same_checkpoint_in_another_span_is_the_same(
    exporter: InMemorySpanExporter, settings: Settings
) -> None:
    checkpoint = {
        "checkpoint_id": "6f1c1b0e-94a4-4c5e-9d0f-1d1f0a8f5f3d",
        "run_id": "a",
        "trigger": "manual",
        "state": {"n": 1},
    }
    with Holdfast(settings) as hf:
        first = hf.submit(checkpoint)
        assert hf.submit(checkpoint) == first
        hf.drain()
        again = hf.submit(checkpoint)

    assert (again.checkpoint_id, again.sequence_number) == (first.checkpoint_id, first.sequence_number)
    assert again.status == "verified"
    assert len([span for span in exporter.get_finished_spans() if span.name == "holdfast.save"]) == 3


def test_a_recorder_saves_within_the_programs_trace(
    exporter: InMemorySpanExporter, settings: Settings
) -> None:
    with (
        Holdfast(settings) as hf,
        traces.span("the job"),
        hf.run("r", style="steps") as run,
        run.step("lint") as step,
    ):
        step.capture(version="1.2")

    spans = exporter.get_finished_spans()
    job = by_name(spans)["the job"]
    saves = [span for span in spans if span.name == "holdfast.save"]
    assert saves
    assert {context_of(span).trace_id for span in saves} == {context_of(job).trace_id}


@pytest.mark.slow
def test_a_request_that_fails_says_so(exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    away = {
        "HOLDFAST_DATA_DIR": str(tmp_path),
        "HOLDFAST_REPO": "you/there",
        "HOLDFAST_API_URL": "http://127.0.0.1:9",
    }
    with Holdfast(load_settings(away)) as hf:
        hf.save("a", {})
        hf.drain()

    asked = [span for span in exporter.get_finished_spans() if span.name.startswith("GitHub ")]
    assert asked
    assert not any(span.status.is_ok for span in asked)


@pytest.mark.usefixtures("exporter")
def test_logs_carry_the_ids_of_the_span(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", secrets=list)
    with traces.span("anything"):
        log.info("happened")
        ids = traces.ids()
    log.info("happened_outside")

    inside, outside = map(json.loads, capfd.readouterr().err.splitlines())
    assert {name: inside[name] for name in ids} == ids
    assert "trace_id" not in outside


def test_nothing_is_kept_without_traces(settings: Settings) -> None:
    with Holdfast(settings) as hf:
        hf.save("a", {})
        assert b"traceparent" not in hf.checkpoint("a").content


def test_without_the_extra_the_variables_are_answered_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    fresh = Traces()

    with pytest.raises(ExtraMissing, match=r"pip install '\.\[otel\]'"):
        fresh.set_up({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert not fresh.is_on


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_standard_variables_decide(environment: dict[str, str], expected: bool) -> None:
    assert asks_for_traces(environment) is expected


class Collector:
    """A real receiver of OTLP over HTTP on loopback."""

    def __init__(self) -> None:
        received: list[tuple[str, bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.received = received
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def spans(self) -> list[tuple[str, str, str]]:
        """The service, the trace and the name of each span."""
        found = []
        for path, body in self.received:
            assert path == "/v1/traces"
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {each.key: each.value.string_value for each in group.resource.attributes}
                found += [
                    (service["service.name"], span.trace_id.hex(), span.name)
                    for scope in group.scope_spans
                    for span in scope.spans
                ]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def outside() -> dict[str, str]:
    ours = ("HOLDFAST_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run_command(words: list[str], folder: Path, more: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**outside(), "HOLDFAST_DATA_DIR": str(folder), **more},
        input="{}",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_two_processes_send_one_trace_to_a_collector(collector: Collector, tmp_path: Path) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "checkpoints"}
    saved = run_command(["submit", "-", "--run-id", "a"], tmp_path, variables)
    drained = run_command(["drain"], tmp_path, variables)

    assert (saved.returncode, drained.returncode) == (0, 0), saved.stderr + drained.stderr
    spans = collector.spans()
    assert {service for service, _, _ in spans} == {"checkpoints"}
    (trace,) = {trace for _, trace, name in spans if name == "holdfast.save"}
    names = {name for _, each, name in spans if each == trace}
    assert {
        "holdfast.save",
        "holdfast.queue",
        "holdfast.drain",
        "GitHub WriteFile",
        "holdfast.verify",
    } <= names


@pytest.mark.slow
def test_a_collector_that_is_away_costs_a_command_little(tmp_path: Path) -> None:
    ended = run_command(
        ["submit", "-", "--run-id", "a"], tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    )

    assert ended.returncode == 0
    assert "spooled" in ended.stdout


@pytest.mark.slow
def test_nothing_of_opentelemetry_is_loaded_where_nobody_asks(tmp_path: Path) -> None:
    program = (
        "import sys, os; from holdfast import Holdfast\n"
        "with Holdfast.from_env() as hf: hf.save('a', {}); hf.drain()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**outside(), "HOLDFAST_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_program_that_traces_already_is_joined(tmp_path: Path) -> None:
    program = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "from holdfast import Holdfast\n"
        "with Holdfast.from_env() as hf:\n"
        "    with trace.get_tracer('mine').start_as_current_span('step') as span:\n"
        "        hf.save('a', {})\n"
        "    print(f'{span.get_span_context().trace_id:032x}' in hf.checkpoint('a').content.decode())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**outside(), "HOLDFAST_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout.strip() == "True"

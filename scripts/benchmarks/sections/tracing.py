"""What traces cost: a save and a start with them, without them, and without anything of them installed."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from benchmarks.report import Bar, Report
from benchmarks.sampling import Sample, interleave
from benchmarks.saving_process import WITHOUT_EXTRA
from benchmarks.sections.start_up import plain_variables, processor_time, time_process
from benchmarks.workshop import Workshop

NAME = "traces"
ON, OFF = "on", "off"
# "Within the noise" of a few dozen rounds on a machine that nothing else uses.
_NOISE = 1.05
_START = "import sys; {}; from holdfast.cli import main; sys.exit(main(['submit', '-', '--run-id', 'a']))"
_HIDDEN = "sys.modules['opentelemetry'] = None"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure processes that save, and whole commands, by turns; spans go to a collector."""
    with ExitStack() as opened:
        collector = opened.enter_context(HTTPServer(("127.0.0.1", 0), _Collector))
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        opened.callback(collector.shutdown)
        asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}"}
        ways = {WITHOUT_EXTRA: {}, OFF: {}, ON: asked}
        saves = {
            way: opened.enter_context(_Saver(workshop.disk_folder(), way, more)) for way, more in ways.items()
        }
        starts = {
            way: _start(workshop.disk_folder(), "pass" if way == OFF else _HIDDEN)
            for way in (WITHOUT_EXTRA, OFF)
        }
        for measure in (*saves.values(), *starts.values()):
            measure()
        saving = interleave(saves, rounds=9 if is_quick else 60, repeats=5)
        starting = interleave(starts, rounds=7 if is_quick else 25)
    _tell(report, "50 KB", saving)
    _tell(report, "CPU of one command", starting)
    report.bars += [
        Bar(NAME, "a save with traces off, in saves without the extra", _off(saving), _NOISE, "times"),
        Bar(
            NAME,
            "CPU of a start with traces off, in starts without it",
            _off(starting),
            _NOISE,
            "times",
        ),
        Bar(
            NAME,
            "a save with traces on, in saves with them off",
            saving[ON].ratio_to(saving[OFF]),
            1.3,
            "times",
        ),
    ]


def _off(samples: dict[str, Sample]) -> float:
    return samples[OFF].ratio_to(samples[WITHOUT_EXTRA])


def _tell(report: Report, work: str, samples: dict[str, Sample]) -> None:
    report.add_samples(
        samples, section=NAME, work=work, name="median", unit="ms", baseline=WITHOUT_EXTRA, scale=1000
    )


class _Saver:
    """A process that saves when it is asked to: who traces has nothing in common with who does not."""

    def __init__(self, folder: Path, way: str, variables: dict[str, str]) -> None:
        command = [sys.executable, "-m", "benchmarks.saving_process", str(folder), way]
        self._process = subprocess.Popen(
            command,
            env={**plain_variables(), "PYTHONPATH": ":".join(sys.path), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Callable[[], float]:
        return self._save

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def _save(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def _start(folder: Path, preparation: str) -> Callable[[], float]:
    command = [sys.executable, "-c", _START.format(preparation)]
    variables = {**plain_variables(), "HOLDFAST_DATA_DIR": str(folder)}
    return time_process(command, variables, text="{}", clock=processor_time)


class _Collector(BaseHTTPRequestHandler):
    """Takes spans, and drops them."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

"""The alert rules and the dashboard ask for metrics that the sidecar really has."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.metrics import Metrics

FOLDER = Path(__file__).parents[2] / "fixtures" / "monitoring"
STATUS = {
    "spool": {"depth": 0, "bytes": 0, "oldest_age_s": 0, "set_aside": 0},
    "last_error": "away",
    "disk_free_bytes": 7,
    "budget": {"last_remaining": 1, "content_left_minute": 2, "content_left_hour": 3},
}


def alerts() -> list[dict[str, Any]]:
    document = YAML(typ="safe").load((FOLDER / "alerts.yaml").read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    dashboard = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])


def exposed() -> str:
    metrics = Metrics(lambda: STATUS)
    metrics.submits.labels("failed").inc()
    metrics.request_answered("ReadFile", 200)
    return metrics.render().decode()


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_that_is_asked_for_is_there(expression: str) -> None:
    names = set(re.findall(r"\b(?:holdfast|process)_\w+", expression))
    known = set(re.findall(r"^(\w+)(?:\{| )", exposed(), re.MULTILINE))

    assert names
    assert names <= known


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_label_that_is_asked_for_is_there(expression: str) -> None:
    for metric, label, value in re.findall(r"(\w+)\{(\w+)=\"(\w+)\"\}", expression):
        assert re.search(rf'^{metric}\{{.*{label}="{value}"', exposed(), re.MULTILINE)


def test_an_outage_and_the_disk_are_told() -> None:
    assert "holdfast_outage 1.0" in exposed()
    assert "holdfast_disk_free_bytes 7.0" in exposed()


def test_every_alert_says_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")
def test_prometheus_takes_the_rules() -> None:
    ended = subprocess.run(
        ["promtool", "check", "rules", str(FOLDER / "alerts.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr

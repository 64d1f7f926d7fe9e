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

from holdfast.format.index import Index, IndexEntry
from holdfast.format.receipt import Progress
from holdfast.metrics import Metrics
from holdfast.queue.contract import Journey
from holdfast.stats.figures import Gathered, ResumeCount, compute

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
    metrics.statistics_seen(
        compute(
            Gathered(
                None,
                [
                    Index(
                        "r", (IndexEntry(1, "id", "manual", "", "r/cp_001_manual.json", "completed", "sha"),)
                    )
                ],
                [Journey("id", "r", 1, "manual", 9, 1.0, Progress.VERIFIED, 2.0)],
                ResumeCount(0, None),
                file_bytes={"r/cp_001_manual.json": 9},
                part_bytes={},
                repository_bytes=9,
                commits=1,
                cost=1,
            )
        )
    )
    metrics.saved.labels("manual").inc()
    metrics.resumes.labels("found").inc()
    metrics.http_requests.labels("GET", "/healthz", "200").inc()
    metrics.submits.labels("failed").inc()
    metrics.request_answered("ReadFile", 200)
    return metrics.render().decode()


@pytest.mark.slow
@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_that_is_asked_for_is_there(expression: str) -> None:
    names = set(re.findall(r"\b(?:holdfast|process)_\w+", expression))
    known = set(re.findall(r"^(\w+)(?:\{| )", exposed(), re.MULTILINE))

    assert names
    assert names <= known


def test_every_metric_of_ours_is_asked_for() -> None:
    asked = {re.sub(r"_bucket$", "", name) for each in expressions() for name in re.findall(r"\w+", each)}
    ours = set(re.findall(r"^# TYPE (holdfast_\w+) ", exposed(), re.MULTILINE))

    assert {name for name in ours - asked if not name.endswith("_created")} == set()


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_label_that_is_asked_for_is_there(expression: str) -> None:
    for metric, label, value in re.findall(r"(\w+)\{(\w+)=\"(\w+)\"\}", expression):
        assert re.search(rf'^{metric}\{{.*{label}="{value}"', exposed(), re.MULTILINE)


def test_an_outage_and_the_disk_are_told() -> None:
    assert "holdfast_outage 1.0" in exposed()
    assert "holdfast_disk_free_bytes 7.0" in exposed()


@pytest.mark.slow
def test_every_alert_says_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"]


# What each alert needs to be raised within an hour and a half, as promtool writes series.
TROUBLES = {
    "HoldfastNotDraining": {
        "holdfast_spool_oldest_age_seconds": "3601+60x90",
        "holdfast_verified_total": "5x90",
    },
    "HoldfastOutage": {"holdfast_outage": "1x90"},
    "HoldfastSetAside": {"holdfast_spool_set_aside": "2x90"},
    "HoldfastBudgetGone": {'holdfast_budget_left{limit="requests"}': "12x90"},
    "HoldfastSavesFail": {'holdfast_submits_total{outcome="failed"}': "0+1x90"},
    "HoldfastDiskFull": {"holdfast_disk_free_bytes": "1000000x90"},
    "HoldfastSlowAcknowledgements": {
        'holdfast_acknowledgement_seconds_bucket{le="0.25"}': "0+1x90",
    },
}
SOUND = {
    "holdfast_spool_oldest_age_seconds": "5x90",
    "holdfast_verified_total": "0+5x90",
    "holdfast_outage": "0x90",
    "holdfast_spool_set_aside": "0x90",
    'holdfast_budget_left{limit="requests"}': "4900x90",
    'holdfast_budget_left{limit="content_hour"}': "400x90",
    'holdfast_submits_total{outcome="failed"}': "0x90",
    "holdfast_disk_free_bytes": "90000000000x90",
    'holdfast_acknowledgement_seconds_bucket{le="0.25"}': "0+9x90",
    'holdfast_acknowledgement_seconds_bucket{le="0.5"}': "0+9x90",
    'holdfast_acknowledgement_seconds_bucket{le="+Inf"}': "0+9x90",
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")
def test_each_trouble_raises_its_alert_and_no_other(tmp_path: Path) -> None:
    assert TROUBLES.keys() == {rule["alert"] for rule in alerts()}
    query = 'sort(count by (alertname) (ALERTS{alertstate="firing"}))'
    tests = [
        {
            "interval": "1m",
            "name": trouble or "sound",
            "input_series": [
                {"series": name, "values": values} for name, values in {**SOUND, **series}.items()
            ],
            "promql_expr_test": [
                {
                    "expr": query,
                    "eval_time": "85m",
                    "exp_samples": [{"labels": f'{{alertname="{trouble}"}}', "value": 1}] if trouble else [],
                }
            ],
        }
        for trouble, series in {"": {}, **TROUBLES}.items()
    ]
    document = {"rule_files": [str(FOLDER / "alerts.yaml")], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(json.dumps(document))

    ended = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "tests.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")
def test_prometheus_takes_the_rules() -> None:
    ended = subprocess.run(
        ["promtool", "check", "rules", str(FOLDER / "alerts.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr

"""The compose file, as far as it can be checked without Docker: names, settings, what waits for what."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.settings import Settings, unknown_variables
from tests.docs.pages import page

ROOT = Path(__file__).parents[2]
SIDECARS = ["holdfast-1", "holdfast-2", "holdfast-3"]


@pytest.fixture(scope="module")
def compose() -> Any:
    return YAML(typ="safe").load((ROOT / "fixtures" / "compose.yaml").read_text("utf-8"))


def filled_in(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment as compose makes it, of variables that are all set."""
    return {name: re.sub(r"\$\{(\w+)[^}]*\}", r"a\1", value) for name, value in environment.items()}


def test_every_volume_and_every_service_that_is_named_exists(compose: Any) -> None:
    services = compose["services"]
    used = {each.split(":")[0] for service in services.values() for each in service.get("volumes", ())}
    needed = {name for service in services.values() for name in service.get("depends_on", {})}

    assert used == set(compose["volumes"])
    assert needed <= set(services)
    for name in needed:
        assert "healthcheck" in services[name] or "build" in services[name], (
            f"nobody knows when {name} is there"
        )


def test_settings_of_the_sidecars_are_settings_and_make_sense(compose: Any) -> None:
    for name in ["holdfast", *SIDECARS]:
        environment = filled_in(compose["services"][name]["environment"])
        assert unknown_variables(environment) == {}
        repository = {"HOLDFAST_REPO": "you/checkpoints"}
        settings = Settings.from_environment({**environment, **repository})
        assert settings.api_token is not None
        assert (settings.database_url is not None) == (name in SIDECARS)


def test_the_page_of_the_sidecar_sets_what_the_file_needs() -> None:
    needed = set(re.findall(r"\$\{(\w+):\?", (ROOT / "fixtures" / "compose.yaml").read_text("utf-8")))
    (block,) = [block for block in page("docs/sidecar.md").blocks if "docker compose" in block.text]

    assert needed
    assert needed <= set(re.findall(r"(\w+)=", block.text))


def test_the_scaled_profile_is_one_queue_three_sidecars_and_n8n_in_queue_mode(compose: Any) -> None:
    services = compose["services"]
    scaled = {name for name, service in services.items() if service.get("profiles") == ["scaled"]}
    main, worker = services["n8n-main"], services["n8n-worker"]

    assert scaled == {*SIDECARS, "n8n-main", "n8n-worker", "postgres", "redis"}
    assert worker["command"] == "worker"
    assert main["environment"] == worker["environment"]
    assert main["environment"]["EXECUTIONS_MODE"] == "queue"
    assert {*SIDECARS, "postgres", "redis"} <= set(main["depends_on"])
    hosts = {services[name]["environment"]["HOLDFAST_ALLOWED_HOSTS"] for name in SIDECARS}
    names = {tuple(services[name]["networks"]["default"]["aliases"]) for name in SIDECARS}
    assert hosts == {main["environment"]["N8N_SSRF_ALLOWED_HOSTNAMES"]} == {"holdfast-scaled"}
    assert names == {("holdfast-scaled",)}
    assert len({services[name]["volumes"][0] for name in SIDECARS}) == 3
    assert not any("ports" in services[name] for name in [*SIDECARS, "postgres", "redis"])


def test_the_image_has_the_driver_of_the_shared_queue() -> None:
    wanted = [
        line
        for line in (ROOT / "scripts" / "hashes.txt").read_text("utf-8").splitlines()
        if line.startswith("psycopg")
    ]

    assert [line.partition("==")[0] for line in wanted] == ["psycopg", "psycopg-binary", "psycopg-pool"]
    assert "psycopg" in (ROOT / "Dockerfile").read_text("utf-8")

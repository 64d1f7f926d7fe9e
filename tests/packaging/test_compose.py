"""The compose file, as far as it can be checked without Docker: names, settings, what waits for what."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.settings import Settings, unknown_variables
from tests.docs.pages import page

ROOT = Path(__file__).parents[2]
SIDECARS = ["holdfast", "holdfast-2", "holdfast-3"]
ADDED = ["holdfast-2", "holdfast-3", "n8n-worker", "postgres", "redis"]
"""What the profile `scaled` adds to the services that are always started."""


@pytest.fixture(scope="module")
def compose() -> Any:
    return YAML(typ="safe").load((ROOT / "fixtures" / "compose.yaml").read_text("utf-8"))


def filled_in(environment: dict[str, str], **variables: str) -> dict[str, str]:
    """Return an environment as compose makes it of these variables; one that is required is set."""

    def fill(match: re.Match[str]) -> str:
        name, operator, other = match.groups()
        value = variables.get(name, "")
        match operator:
            case ":+":
                return other.replace(f"${{{name}}}", value) if value else ""
            case ":?":
                return value or "set"
        return value or other

    return {
        name: re.sub(r"\$\{(\w+)(:[-+?])((?:[^{}]|\{[^{}]*\})*)\}", fill, value)
        for name, value in environment.items()
        if value is not None
    }


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


@pytest.mark.parametrize("password", ["", "a1b2c3"])
def test_settings_of_the_sidecars_are_settings_and_make_sense(compose: Any, password: str) -> None:
    variables = {"HOLDFAST_REPO": "you/checkpoints", "DATABASE_PASSWORD": password}
    for name in SIDECARS:
        environment = filled_in(compose["services"][name]["environment"], **variables)
        assert unknown_variables(environment) == {}
        settings = Settings.from_environment(environment)
        assert settings.api_token is not None
        url = settings.database_url.get_secret_value() if settings.database_url else ""
        assert url == (f"postgresql://holdfast:{password}@postgres:5432/holdfast" if password else "")


def test_the_profile_scaled_adds_to_what_is_always_started_and_no_port_is_published_twice(
    compose: Any,
) -> None:
    services = compose["services"]
    always = {name for name, service in services.items() if "profiles" not in service}
    ports = [port for service in services.values() for port in service.get("ports", ())]

    assert always == {"holdfast", "n8n"}
    assert set(services) == always | set(ADDED)
    assert all(services[name]["profiles"] == ["scaled"] for name in ADDED)
    assert ports == ["127.0.0.1:5678:5678"]
    for name in always:  # what is not started must not be waited for
        for needed, how in services[name]["depends_on"].items():
            assert needed in always or how["required"] is False


def test_the_page_of_the_sidecar_sets_what_the_file_needs() -> None:
    needed = set(re.findall(r"\$\{(\w+):\?", (ROOT / "fixtures" / "compose.yaml").read_text("utf-8")))
    (block,) = [block for block in page("docs/sidecar.md").blocks if "docker compose" in block.text]

    assert needed
    assert needed <= set(re.findall(r"(\w+)=", block.text))


def test_the_scaled_profile_is_one_queue_three_sidecars_and_n8n_in_queue_mode(compose: Any) -> None:
    services = compose["services"]
    main, worker = services["n8n"], services["n8n-worker"]

    assert worker["command"] == "worker"
    assert main["environment"] == worker["environment"]
    usual = filled_in(main["environment"])
    scaled = filled_in(main["environment"], DATABASE_PASSWORD="a1b2c3")
    assert (usual["EXECUTIONS_MODE"], usual["DB_TYPE"]) == ("", "")
    assert (scaled["EXECUTIONS_MODE"], scaled["DB_TYPE"]) == ("queue", "postgresdb")
    assert {"holdfast", "postgres", "redis"} <= set(main["depends_on"])
    hosts = {services[name]["environment"]["HOLDFAST_ALLOWED_HOSTS"] for name in SIDECARS}
    names = {tuple(services[name]["networks"]["default"]["aliases"]) for name in SIDECARS}
    assert hosts == {main["environment"]["N8N_SSRF_ALLOWED_HOSTNAMES"]} == {"holdfast"}
    assert names == {("holdfast",)}
    assert len({services[name]["volumes"][0] for name in SIDECARS}) == 3


def test_the_image_has_the_driver_of_the_shared_queue() -> None:
    wanted = [
        line
        for line in (ROOT / "scripts" / "hashes.txt").read_text("utf-8").splitlines()
        if line.startswith("psycopg")
    ]

    assert [line.partition("==")[0] for line in wanted] == ["psycopg", "psycopg-binary", "psycopg-pool"]
    assert "psycopg" in (ROOT / "Dockerfile").read_text("utf-8")

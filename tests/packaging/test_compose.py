"""The compose file, as far as it can be checked without Docker: names, settings, what waits for what."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.settings import Settings, unknown_variables
from tests.docs.pages import page

ROOT = Path(__file__).parents[2]
SIDECARS = ["holdfast", "holdfast-2", "holdfast-3"]
N8N = ["n8n", "n8n-worker", "n8n-worker-2"]
ADDED = ["holdfast-2", "holdfast-3", "n8n-worker", "n8n-worker-2", "postgres", "redis"]
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


@pytest.mark.processes
def test_the_file_is_as_the_specification_of_compose_wants_it() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    file = ROOT / "fixtures" / "compose.yaml"

    checked = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", file], capture_output=True, text=True
    )

    assert checked.returncode == 0, checked.stdout


def networks_of(service: Any) -> dict[str, list[str]]:
    """Return the networks that a service is in, with the names that it has there besides its own."""
    networks = service.get("networks", ["default"])
    if isinstance(networks, list):
        return {name: [] for name in networks}
    return {name: (given or {}).get("aliases", []) for name, given in networks.items()}


def who_answers(compose: Any, asking: str, name: str) -> set[str]:
    """Return the services that a service may reach by a name: it is looked for in all of its networks."""
    own = networks_of(compose["services"][asking])
    return {
        service
        for service, given in compose["services"].items()
        for network, aliases in networks_of(given).items()
        if network in own and name in {service, *aliases}
    }


def test_each_n8n_process_has_one_sidecar_that_is_always_the_same(compose: Any) -> None:
    """A run that went through several could lose its order while the database is away."""
    beside = [who_answers(compose, process, "holdfast") for process in N8N]

    assert beside == [{"holdfast"}, {"holdfast-2"}, {"holdfast-3"}]
    for process, sidecars in zip(N8N, beside, strict=True):
        for sidecar in sidecars:
            assert compose["services"][process]["depends_on"][sidecar]["condition"] == "service_healthy"


def test_everyone_reaches_the_database_and_n8n_its_queue(compose: Any) -> None:
    for name in (*SIDECARS, *N8N):
        assert who_answers(compose, name, "postgres") == {"postgres"}
        assert compose["services"][name]["depends_on"]["postgres"]["condition"] == "service_healthy"
    for name in N8N:
        assert who_answers(compose, name, "redis") == {"redis"}
    used = {network for service in compose["services"].values() for network in networks_of(service)}
    assert used == {"default", *compose["networks"]}


def test_the_database_is_not_taken_for_ready_while_it_is_made(compose: Any) -> None:
    """The image makes it with a server of its own, which listens on the socket alone."""
    _, command = compose["services"]["postgres"]["healthcheck"]["test"]

    assert command.split()[:3] == ["pg_isready", "-h", "127.0.0.1"]


def test_one_n8n_process_alone_makes_its_tables(compose: Any) -> None:
    services = compose["services"]
    kind, program, *arguments = services["n8n"]["healthcheck"]["test"]

    assert (kind, program, arguments[0]) == ("CMD", "node", "-e")
    assert "http://127.0.0.1:5678/healthz/readiness" in arguments[1]
    for worker in N8N[1:]:
        assert services[worker]["depends_on"]["n8n"]["condition"] == "service_healthy"
        assert "healthcheck" not in services[worker], "it answers no requests"


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
    main, *workers = (services[name] for name in N8N)

    assert [worker["command"] for worker in workers] == ["worker", "worker"]
    assert all(main["environment"] == worker["environment"] for worker in workers)
    usual = filled_in(main["environment"])
    scaled = filled_in(main["environment"], DATABASE_PASSWORD="a1b2c3")
    assert (usual["EXECUTIONS_MODE"], usual["DB_TYPE"]) == ("", "")
    assert (scaled["EXECUTIONS_MODE"], scaled["DB_TYPE"]) == ("queue", "postgresdb")
    assert {"holdfast", "postgres", "redis"} <= set(main["depends_on"])
    hosts = {services[name]["environment"]["HOLDFAST_ALLOWED_HOSTS"] for name in SIDECARS}
    assert hosts == {main["environment"]["N8N_SSRF_ALLOWED_HOSTNAMES"]} == {"holdfast"}
    assert len({services[name]["volumes"][0] for name in SIDECARS}) == 3


def test_the_image_has_the_driver_of_the_shared_queue() -> None:
    wanted = [
        line
        for line in (ROOT / "scripts" / "hashes.txt").read_text("utf-8").splitlines()
        if line.startswith("psycopg")
    ]

    assert [line.partition("==")[0] for line in wanted] == ["psycopg", "psycopg-binary", "psycopg-pool"]
    assert "psycopg" in (ROOT / "Dockerfile").read_text("utf-8")

"""What the documentation says of the product is what the product has: settings, commands, calls, files."""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from holdfast.cli import build_parser
from holdfast.cli.arguments import SETTINGS
from holdfast.errors import RefusalKind
from holdfast.format.triggers import Priority, Trigger
from holdfast.library import Holdfast
from holdfast.metrics import Metrics
from holdfast.n8n import NAMES, read_workflow
from holdfast.presentation.exits import ExitCode
from holdfast.settings import MOST_BYTES, Settings, names_of_settings, variables_of
from holdfast.settings.kinds import MEGABYTE
from holdfast.sidecar.openapi import document
from holdfast.styles.known import STYLES
from tests.docs.pages import ROOT, Page, every_page, page

_PATH = re.compile(r"[\w.*{}-]+(?:/[\w.*{}-]+)*(?:/|\.(?:py|md|toml|yml|yaml|svg|json|txt))")


def commands_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command that can be carried out, without the groups that only hold others."""
    actions = parser._actions
    groups = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for each in group.choices.values():
            yield from commands_of(each)


COMMANDS = list(commands_of(build_parser()))
SHARED_OPTIONS = {f"--{name.replace('_', '-')}" for name in SETTINGS} | {"--help", "--json"}


def format_default(name: str) -> str:
    """A default as settings.md writes it."""
    default: Any = Settings.__dataclass_fields__[name].default
    if default is None or default == ():
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if name.endswith("_bytes"):
        size = default // MEGABYTE
        return f"{size} MB" if size % 1024 else f"{size // 1024} GB"
    return f"`{default}`" if isinstance(default, str) else f"{default:,}" if name != "port" else str(default)


def test_the_settings_page_has_every_variable_and_no_other() -> None:
    rows = [row for row in page("docs/settings.md").rows() if row[0].startswith("`")]
    documented = {variable for row in rows for variable in re.findall(r"`([A-Z_]+)`", row[0])}

    assert documented == {variable for name in names_of_settings() for variable in variables_of(name)}


@pytest.mark.parametrize("name", [name for name in names_of_settings() if name != "data_dir"])
def test_the_settings_page_has_the_default(name: str) -> None:
    (default,) = [
        row[2] for row in page("docs/settings.md").rows() if row[0].startswith(f"`{variables_of(name)[0]}`")
    ]

    assert re.split(r"[;:]? for |;|: ", default)[0] == format_default(name)


def test_no_page_names_a_setting_that_is_none() -> None:
    known = {variable for name in names_of_settings() for variable in variables_of(name)}
    named = {
        (each.name, variable)
        for each in every_page()
        for variable in re.findall(r"\bHOLDFAST_[A-Z_]+\b", each.text)
        # The misspelling that settings.md shows, what says which run and claim a command is about, and tests.
        if variable not in ("HOLDFAST_REOP", "HOLDFAST_RUN_ID", "HOLDFAST_FENCE")
    }

    assert {each for each in named if each[1] not in known} == set()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prog)
def test_the_page_of_the_command_line_names_every_command_and_option(
    command: argparse.ArgumentParser,
) -> None:
    text = page("docs/cli.md").text + page("docs/sidecar.md").text + page("docs/n8n.md").text
    options = {option for action in command._actions for option in action.option_strings if option != "-h"}
    name = command.prog.removeprefix("holdfast ")

    assert re.search(rf"`(holdfast )?{name}\b", page("docs/cli.md").text)
    assert {option for option in options - SHARED_OPTIONS if not re.search(rf"{option}\b", text)} == set()


def test_the_page_of_the_command_line_names_the_options_of_every_command() -> None:
    assert {option for option in SHARED_OPTIONS if f"`{option}`" not in page("docs/cli.md").text} == set()


def test_the_page_of_the_command_line_has_every_exit_code() -> None:
    codes = [row[0] for row in page("docs/cli.md").rows() if row[0].isdigit()]

    assert codes == [str(code.value) for code in ExitCode]


def test_the_page_of_the_sidecar_has_every_call_and_no_other() -> None:
    calls = {
        f"{method.upper()} {path}" for path, methods in document()["paths"].items() for method in methods
    }
    documented = {row[0].strip("`") for row in page("docs/sidecar.md").rows() if " /" in row[0]}

    assert documented == calls


def test_the_page_of_the_sidecar_has_every_metric() -> None:
    status = {
        "spool": {"depth": 0, "bytes": 0, "oldest_age_s": 0, "set_aside": 0},
        "last_error": None,
        "disk_free_bytes": 1,
        "budget": {"last_remaining": 1, "content_left_minute": None, "content_left_hour": None},
    }
    rendered = Metrics(lambda: status).render().decode()
    exposed = set(re.findall(r"^# TYPE (holdfast_\w+) ", rendered, re.MULTILINE))

    names = {name for name in exposed if not name.endswith("_created")}
    assert {name for name in names if f"`{name}`" not in page("docs/sidecar.md").text} == set()


def test_the_page_of_the_library_names_every_method() -> None:
    methods = {name for name in dir(Holdfast) if not name.startswith("_")}
    named = {
        name for code in page("docs/library.md").code for name in re.findall(r"(?:^|hf\.)(\w+)(?=\(|$)", code)
    }

    assert methods - named == set()


def test_the_page_on_n8n_publishes_every_workflow_but_the_example() -> None:
    published = set(re.findall(r"\bHoldfast\w+", page("docs/n8n.md").text))

    assert published == {json.loads(read_workflow(name))["id"] for name in NAMES if "example" not in name}


def test_the_format_page_has_every_trigger_under_its_priority() -> None:
    rows = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in page("docs/format.md").rows()}

    for priority in Priority:
        assert rows[priority.value] == [trigger.value for trigger in Trigger if trigger.priority is priority]


def test_the_format_page_has_the_largest_size() -> None:
    assert f"{MOST_BYTES // MEGABYTE} MB" in page("docs/format.md").prose


def test_the_page_on_styles_has_a_section_for_each() -> None:
    assert set(STYLES) <= page("docs/styles.md").anchors


def test_the_page_on_operations_has_every_kind_of_refusal() -> None:
    kinds = {row[0].strip("`") for row in page("docs/operations.md").rows()}

    assert set(get_args(RefusalKind)) <= kinds


@pytest.mark.parametrize("each", every_page(), ids=lambda each: each.name)
def test_links_lead_somewhere(each: Page) -> None:
    for link in each.links:
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (each.path.parent / path).resolve() if path else each.path
        assert target.exists(), link
        if anchor:
            assert anchor in Page(target).anchors, link


@pytest.mark.parametrize("name", ["docs/design.md", "CONTRIBUTING.md"])
def test_every_path_that_is_named_exists(name: str) -> None:
    """Paths stand between backticks, from the top of the repository or of the package."""
    tops = (ROOT, ROOT / "src/holdfast")
    paths = [
        code for code in page(name).code if _PATH.fullmatch(code) and "{" not in code and "*" not in code
    ]

    assert paths
    stored = {
        "index.json",
        "latest.json",
        "summary.json",
        "preserved_runs.json",
        "retention_log.json",
        "claim.json",
    }
    assert {
        path for path in paths if path not in stored and not any((top / path).exists() for top in tops)
    } == set()


def test_the_map_of_the_code_has_every_folder_and_no_other() -> None:
    blocks = [block for block in page("docs/design.md").blocks if "src/holdfast/" in block.text]
    named = set(re.findall(r"^ {2}(\w+)/", blocks[0].text, re.MULTILINE))
    package = ROOT / "src/holdfast"

    assert named == {path.name for path in package.iterdir() if (path / "__init__.py").exists()}


def test_the_table_of_layers_is_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {each["name"]: each for each in project["tool"]["importlinter"]["contracts"]}
    layers = [set(layer.split(" : ")) for layer in contracts["Seven layers"]["layers"]]
    rows = [row for row in page("docs/design.md").rows() if row[0].isdigit()]

    assert [set(re.findall(r"`(\w+)(?:/|\.py)`", row[1])) for row in rows] == layers


def test_the_figures_of_the_readme_are_the_measured_ones() -> None:
    measured = json.loads((ROOT / "docs/pictures/bench.json").read_text(encoding="utf-8"))["figures"]
    contestants = ("Holdfast contents", "Holdfast commit", "PyGithub loop")

    def find(work: str, name: str) -> list[str]:
        found = {
            each["contestant"]: each["value"]
            for each in measured
            if (each["work"], each["name"]) == (work, name)
        }
        return [f"{found[contestant]:,g}" for contestant in contestants]

    lone = find("one at a time, 5 KB", "requests")
    burst = find("burst of 100 of 1 run, 5 KB", "requests")
    hour = find("5 KB, 10 runs, evenly over an hour", "checkpoints an hour")
    figures = [
        row[1:] for row in page("README.md").rows() if row[0].startswith(("requests for", "checkpoints an"))
    ]
    assert figures == [lone, burst, hour]


def test_the_readme_can_be_read_in_one_sitting() -> None:
    assert len(page("README.md").text.splitlines()) <= 230

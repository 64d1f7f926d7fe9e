"""Every package that is installed beside us has a licence that lets anyone use Holdfast as they like."""

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = (
    "googleapis-common-protos",
    "langgraph",
    "mcp",
    "opentelemetry-api",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-sdk",
    "protobuf",
    "psycopg",
    "psycopg-pool",
    "requests",
)
# pygit2 by its linking exception, psycopg as a library that is used and not changed: docs/licences.md.
TOLD_OF = {"pygit2": "GPLv2 with linking exception", "psycopg": "LGPL", "psycopg-pool": "LGPL"}
FREE = re.compile(r"MIT|BSD|Apache|ISC|MPL|Mozilla|PSF|Python Software Foundation")
BOUND = re.compile(r"\bA?L?GPL|GNU|SSPL|BUSL|Commons Clause|Proprietary", re.IGNORECASE)


def packages() -> list[str]:
    text = (ROOT / "scripts" / "requirements.txt").read_text(encoding="utf-8")
    return sorted({*re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE), *EXTRAS})


def licence_of(name: str) -> str:
    """What a package says of its licence, in whichever way it does."""
    package = metadata(name)
    said = [
        text.partition("\n")[0]
        for each in ("License-Expression", "License")
        for text in package.get_all(each) or []
    ]
    classifiers = package.get_all("Classifier") or []
    return " ".join([*said, *(each for each in classifiers if each.startswith("License"))])


@pytest.mark.parametrize("name", packages())
def test_the_licence_is_compatible_and_listed(name: str) -> None:
    licence = licence_of(name)
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")

    if name in TOLD_OF:
        assert TOLD_OF[name] in licence
        assert f"`{name}`" in page
    else:
        assert FREE.search(licence), licence
        assert not BOUND.search(licence)
    assert re.search(rf"^\| `{name}`", page, re.MULTILINE), f"list {name} in docs/licences.md"

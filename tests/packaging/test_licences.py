"""Every package that is installed beside us has a licence that lets anyone use Holdfast as they like."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("langgraph", "mcp", "otel", "postgres")
# pygit2 by its linking exception, psycopg as a library that is used and not changed: docs/licences.md.
TOLD_OF = {
    "pygit2": "GPLv2 with linking exception",
    "psycopg": "LGPL",
    "psycopg-binary": "LGPL",
    "psycopg-pool": "LGPL",
}
FREE = re.compile(r"MIT|BSD|Apache|ISC|MPL|Mozilla|PSF|Python Software Foundation")
BOUND = re.compile(r"\bA?L?GPL|GNU|SSPL|BUSL|Commons Clause|Proprietary", re.IGNORECASE)


def needed_by(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What a package asks for here, with these extras of its own, and the extras that it asks for."""
    for text in requires(name) or []:
        asked = Requirement(text)
        is_asked = asked.marker is None or any(
            asked.marker.evaluate({"extra": each}) for each in {"", *extras}
        )
        if is_asked:
            yield canonicalize_name(asked.name), frozenset(asked.extras)


@cache
def installed() -> set[str]:
    """Everything that is installed with Holdfast and its extras, and what builds it."""
    pins = (ROOT / "scripts" / "requirements.txt").read_text(encoding="utf-8")
    seen = {("holdfast", frozenset(EXTRAS))}
    new = seen
    while new:
        new = {each for package in new for each in needed_by(*package)} - seen
        seen |= new
    return {*re.findall(r"^([a-z0-9-]+)==", pins, re.MULTILINE), *(name for name, _ in seen)} - {"holdfast"}


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


def test_the_page_lists_what_is_installed_and_nothing_else() -> None:
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8").partition("## Every package")[2]
    pins = (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8")
    listed = {*re.findall(r"^\| `([a-z0-9-]+)`", page, re.MULTILINE)}

    # Another version of Python may need less than the one that the page was made with.
    assert installed() <= listed <= {*re.findall(r"^([a-z0-9-]+)==", pins, re.MULTILINE)}
    assert {*EXTRAS, "dev"} == {*metadata("holdfast").get_all("Provides-Extra", [])}


@pytest.mark.parametrize("name", sorted(installed()))
def test_the_licence_is_compatible(name: str) -> None:
    licence = licence_of(name)

    if name in TOLD_OF:
        assert TOLD_OF[name] in licence
    else:
        assert FREE.search(licence), licence
        assert not BOUND.search(licence)

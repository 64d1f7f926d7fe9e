"""What is said of extras is true for who installed from a clone: on PyPI, the name is another project's."""

import re
import tomllib
from pathlib import Path

from holdfast.extras import how_to_install

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "src/holdfast/cli/holdfast.1")]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def test_every_extra_that_is_advised_exists() -> None:
    advised = {
        extra
        for path in SOURCES
        for extra in re.findall(r"how_to_install\(['\"](\w+)", path.read_text("utf-8"))
    }

    assert advised
    assert advised <= EXTRAS.keys()


def test_an_extra_is_installed_from_the_clone() -> None:
    assert how_to_install("otel").startswith("pip install '.[otel]' in the clone")


def test_nobody_is_sent_to_the_package_of_another_project() -> None:
    paths = [*SOURCES, *PAGES, *sorted((ROOT / "docs").glob("*.md"))]
    command = re.compile(r"pip install ['\"]?holdfast")

    assert [path.name for path in paths if command.search(path.read_text("utf-8"))] == []

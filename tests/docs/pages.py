"""The documentation as data: its pages, and what tests look for in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_APART = "<!-- run apart, with an emulator as GitHub -->"
_HEADING = re.compile(r"^#{1,6} (.+)$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its lines, the line where it begins, and how it is run."""

    language: str
    lines: tuple[str, ...]
    line: int
    not_run: str | None = None
    is_apart: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Page:
    """One Markdown file of the repository."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        return list(_blocks(self.text.splitlines()))

    @cached_property
    def prose(self) -> str:
        """The page without its blocks."""
        return re.sub(r"^```.*?^```$", "", self.text, flags=re.DOTALL | re.MULTILINE)

    @cached_property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @cached_property
    def code(self) -> list[str]:
        """What the prose sets between backticks."""
        return _CODE.findall(self.prose)

    @cached_property
    def anchors(self) -> set[str]:
        found = (_HEADING.match(line) for line in self.prose.splitlines())
        return {anchor_of(match[1]) for match in found if match}

    def rows(self) -> Iterator[list[str]]:
        """The cells of every row of every table."""
        for line in self.prose.splitlines():
            if line.startswith("|") and not set(line) <= set("|-: "):
                cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
                yield [cell.strip() for cell in cells]


def anchor_of(heading: str) -> str:
    """The name under which GitHub lets one link to a heading.

    >>> anchor_of("When GitHub is down: `drain` waits")
    'when-github-is-down-drain-waits'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def every_page() -> list[Page]:
    others = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "fixtures/README.md")
    return [
        Page(path) for path in (*(ROOT / name for name in others), *sorted((ROOT / "docs").rglob("*.md")))
    ]


def page(name: str) -> Page:
    return Page(ROOT / name)


def _blocks(lines: list[str]) -> Iterator[Block]:
    begun: tuple[str, int] | None = None
    inside: list[str] = []
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if begun is None and fence:
            begun, inside = (fence[1], number), []
        elif begun is not None and line == "```":
            above = next((line for line in reversed(lines[: begun[1] - 1]) if line.strip()), "").strip()
            not_run = _NOT_RUN.fullmatch(above)
            yield Block(begun[0], tuple(inside), begun[1], not_run[1] if not_run else None, above == _APART)
            begun = None
        elif begun is not None:
            inside.append(line)

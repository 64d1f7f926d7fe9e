"""The repositories under one root folder, found by name, by number, and by GraphQL id."""

import base64
import binascii
import re
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.emulator.repository import GitRepository, RepositoryUnusable

FULL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class ServedRepository:
    """A repository and the name it is served under."""

    git: GitRepository
    full_name: str
    number: int

    @property
    def owner(self) -> str:
        """The account that owns the repository."""
        return self.full_name.partition("/")[0]

    @property
    def name(self) -> str:
        """The name without its owner."""
        return self.full_name.partition("/")[2]

    @property
    def node_id(self) -> str:
        """The GraphQL id."""
        return f"R_{self.number}"

    def ref_id(self, ref: str) -> str:
        """Return the GraphQL id of a full ref name."""
        text = f"{self.number}:{ref}"
        return "REF_" + base64.urlsafe_b64encode(text.encode()).decode()


class Shelf:
    """All repositories below `root`, each in `owner/name.git`; names are compared without regard to case."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, GitRepository] = {}
        self._lock = threading.Lock()

    def create(self, full_name: str) -> None:
        """Make sure that the repository exists; raise RepositoryUnusable if that cannot be."""
        if not FULL_NAME.fullmatch(full_name) or full_name.endswith((".git", "/.", "/..")):
            raise RepositoryUnusable(f"{full_name!r} is no repository name; write it as owner/name")
        with self._lock:
            folder = self._folder(full_name) or self._root / f"{full_name}.git"
            if full_name.lower() not in self._open:
                self._open[full_name.lower()] = GitRepository.create(folder)

    def find(self, full_name: str, renamed: Mapping[str, str]) -> ServedRepository | None:
        """Return the repository of that name; `renamed` maps kept names to those they are served under."""
        kept = {new.lower(): old for old, new in renamed.items()}.get(full_name.lower(), full_name)
        git = self._open_existing(kept)
        if git is None:
            return None
        true_name = f"{git.folder.parent.name}/{git.folder.name.removesuffix('.git')}"
        number = zlib.crc32(true_name.lower().encode())
        return ServedRepository(git, lookup(renamed, true_name) or true_name, number)

    def find_number(self, number: int, renamed: Mapping[str, str]) -> ServedRepository | None:
        """Return the repository with that number."""
        for folder in sorted(self._root.glob("*/*.git")):
            found = self.find(f"{folder.parent.name}/{folder.name.removesuffix('.git')}", {})
            if found is not None and found.number == number:
                return self.find(lookup(renamed, found.full_name) or found.full_name, renamed)
        return None

    def find_node(self, node_id: str, renamed: Mapping[str, str]) -> ServedRepository | None:
        """Return the repository with that GraphQL id."""
        digits = node_id.removeprefix("R_")
        if not node_id.startswith("R_") or not digits.isascii() or not digits.isdigit():
            return None
        return self.find_number(int(digits), renamed)

    def find_ref(self, ref_id: str, renamed: Mapping[str, str]) -> tuple[ServedRepository, str] | None:
        """Return repository and full ref name behind a GraphQL id."""
        try:
            text = base64.urlsafe_b64decode(ref_id.removeprefix("REF_")).decode()
        except (binascii.Error, UnicodeError, ValueError):
            return None
        number, _, ref = text.partition(":")
        found = self.find_number(int(number), renamed) if number.isascii() and number.isdigit() else None
        return None if found is None else (found, ref)

    def close(self) -> None:
        """Close every repository."""
        with self._lock:
            for git in self._open.values():
                git.close()
            self._open.clear()

    def _open_existing(self, full_name: str) -> GitRepository | None:
        known = self._open.get(full_name.lower())
        if known is not None:
            return known
        with self._lock:
            folder = self._folder(full_name)
            if folder is None:
                return None
            return self._open.setdefault(full_name.lower(), GitRepository(folder))

    def _folder(self, full_name: str) -> Path | None:
        """Find the folder on disk, whatever the case of its name."""
        wanted = f"{full_name}.git".lower()
        for folder in self._root.glob("*/*.git"):
            if f"{folder.parent.name}/{folder.name}".lower() == wanted:
                return folder
        return None


@dataclass(frozen=True)
class Sight:
    """The shelf as far as a caller sees it: all of it, or what one account owns."""

    shelf: Shelf
    account: str | None = None

    def find(self, full_name: str, renamed: Mapping[str, str]) -> ServedRepository | None:
        """Do what the shelf does, for what is seen."""
        return self._if_seen(self.shelf.find(full_name, renamed))

    def find_node(self, node_id: str, renamed: Mapping[str, str]) -> ServedRepository | None:
        """Do what the shelf does, for what is seen."""
        return self._if_seen(self.shelf.find_node(node_id, renamed))

    def find_ref(self, ref_id: str, renamed: Mapping[str, str]) -> tuple[ServedRepository, str] | None:
        """Do what the shelf does, for what is seen."""
        found = self.shelf.find_ref(ref_id, renamed)
        return found if found and self._if_seen(found[0]) else None

    def _if_seen(self, served: ServedRepository | None) -> ServedRepository | None:
        is_foreign = served and self.account and served.owner.lower() != self.account.lower()
        return None if is_foreign else served


def lookup(renamed: Mapping[str, str], full_name: str) -> str | None:
    """Return the new name of a renamed repository."""
    return {old.lower(): new for old, new in renamed.items()}.get(full_name.lower())

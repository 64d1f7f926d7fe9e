"""Several repositories as one: an assembly for each, and what is needed above them."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.assembly import Assembly
from holdfast.assembly.ground import Ground
from holdfast.drain.pending import pending_writes
from holdfast.errors import GatewayError, SpoolError
from holdfast.format.receipt import QueueItem
from holdfast.github.patience import waiting_at_most
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.queue.moving import move_all
from holdfast.repository.sources import GitHubSource
from holdfast.security.redaction import Redactor
from holdfast.security.sealing import Keyring
from holdfast.security.signatures import Signatures
from holdfast.settings import Settings
from holdfast.sharding.homes import Homes
from holdfast.sharding.sharded_queue import ShardedQueue
from holdfast.sharding.stored_runs import StoredRuns

if TYPE_CHECKING:
    from holdfast.github.calls import Gateway
    from holdfast.queue.postgres import Database
    from holdfast.ratelimit.limiter import RateLimiter

_LIST = "list"


class ShardedAssembly(Ground):
    """Everything that works on several repositories. A shard is known by the name of its repository.

    `gateways` take the place of the clients, by the names of their repositories.
    """

    def __init__(
        self, settings: Settings, *, gateways: "Mapping[str, Gateway] | None" = None, **given: Any
    ) -> None:
        super().__init__(settings, **given)
        given |= {"clock": self.clock, "stop": self.stop}
        self._by_name = {
            name: Shard(self, name, gateway=(gateways or {}).get(name), **given) for name in settings.shards
        }
        self._held_lock = threading.Lock()
        self._rate_limiters: dict[Path, RateLimiter] = {}
        self._rate_limiters_lock = threading.Lock()

    def close(self) -> None:
        """Close every shard, then what they share."""
        for shard in self._by_name.values():
            shard.close()
        super().close()

    @property
    def shards(self) -> Sequence[Assembly]:
        """Return the repositories, in the order of the setting."""
        return list(self._by_name.values())

    @property
    def repository(self) -> str:
        """Return the names of all repositories."""
        return ", ".join(self._by_name)

    @cached_property
    def folder(self) -> Path:
        """Return the folder of what belongs to no shard; it stays when shards are added."""
        return self.settings.data_dir / "targets" / "shards"

    def secrets(self) -> list[str]:
        """Return every token that is in force now, in whichever shard."""
        return list(dict.fromkeys(secret for shard in self.shards for secret in shard.secrets()))

    @cached_property
    def spool(self) -> Queue:
        """Return the spools of all shards as one."""
        return ShardedQueue(
            lambda: [shard.spool for shard in self.shards], lambda run_id: self.intake(run_id).spool
        )

    def share_rate_limiter(self, path: Path, open_new: "Callable[[Path], RateLimiter]") -> "RateLimiter":
        """Return the one rate limiter of all shards that spend from the same budget."""
        with self._rate_limiters_lock:
            if path not in self._rate_limiters:
                self._rate_limiters[path] = open_new(path)
                self._open.callback(self._rate_limiters[path].close)
            return self._rate_limiters[path]

    @cached_property
    def homes(self) -> Homes:
        """Return what knows where runs are."""
        stored = {name: StoredRuns(shard.open_source, self.clock) for name, shard in self._by_name.items()}
        return Homes(stored, lambda name, run_id: bool(_items_of(self._by_name[name], {run_id})))

    def home(self, run_id: str, /) -> Assembly:
        """Return where a run is stored, or will be, with all that waits for it in the spool of that shard.

        GitHub may be asked for it; where it does not answer, what is known here must do.
        """
        home = self._by_name[self.homes.find(run_id)]
        if home is not self._intake_by_name(run_id):
            with suppress(SpoolError):  # whoever only reads is not to be kept from it
                self._bring_home(run_id, home)
        return home

    def intake(self, run_id: str, /) -> Assembly:
        """Return whose spool takes a checkpoint of this run in. Nobody is asked."""
        shard = self._intake_by_name(run_id)
        home = self.homes.known(run_id)
        if home in (None, shard.repository):
            return shard
        # What waits there is handed on; a newer checkpoint must not be there before.
        return shard if shard.spool.status(0.0).depth else self._by_name[home or ""]

    def hand_on(self, source: "Shard", items: Mapping[str, Sequence[QueueItem]]) -> str:
        """Hand on what waits in one shard to others, by their names; return what went wrong, if anything."""
        try:
            for name, theirs in items.items():
                move_all(source.spool, self._by_name[name].spool, theirs)
        except SpoolError as error:
            log.warning("checkpoints_not_handed_on", cause=str(error))
            return f"they are stored in another shard, whose spool does not take them: {error}"
        return ""

    def _intake_by_name(self, run_id: str) -> "Shard":
        return self._held.get(run_id) or self._by_name[self.homes.hashed(run_id)]

    def _bring_home(self, run_id: str, home: Assembly) -> None:
        for shard in self._by_name.values():
            if shard is not home and run_id not in shard.begun() and (items := _items_of(shard, {run_id})):
                move_all(shard.spool, home.spool, items)

    @property
    def _held(self) -> dict[str, "Shard"]:
        """Return the runs that the spool of another shard than the hash names held when this began.

        They stay with it, so that they do not overtake themselves. Only a list of shards that has changed
        can lead to that, so that the one that was last in force is noted.
        """
        with self._held_lock:
            if "_found_held" not in self.__dict__:
                self._found_held = self._find_held()
            return self._found_held

    def _find_held(self) -> dict[str, "Shard"]:
        note, names = self.folder / _LIST, "\n".join(sorted(self._by_name))
        with suppress(OSError, UnicodeDecodeError):
            if note.read_text("utf-8") == names:
                return {}
        held = {
            item.run_id: shard
            for name, shard in self._by_name.items()
            for item in shard.spool.pending()
            if self.homes.hashed(item.run_id) != name
        }
        if not held:
            with suppress(OSError):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft = note.with_name(f"{_LIST}.{os.getpid()}")
                draft.write_text(names, "utf-8")
                draft.replace(note)
        return held


class Shard(Assembly):
    """One of several repositories: what it shares with the others, and what it hands on to them."""

    def __init__(self, whole: ShardedAssembly, name: str, **given: Any) -> None:
        super().__init__(replace(whole.settings, repo=name, shards=()), **given)
        self._whole = whole

    @cached_property
    def database(self) -> "Database":
        """Return the PostgreSQL that all shards share."""
        return self._whole.database

    @cached_property
    def rate_limiter(self) -> "RateLimiter":
        """Return what is known of GitHub's limits: the same for all shards of a token or an installation."""
        return self._whole.share_rate_limiter(self._budget_path, self._open_rate_limiter)

    @cached_property
    def keyring(self) -> Keyring:
        """Return the keys of all shards."""
        return self._whole.keyring

    @cached_property
    def signatures(self) -> Signatures:
        """Return the keys of all shards."""
        return self._whole.signatures

    @cached_property
    def redactor(self) -> Redactor:
        """Return what takes credentials out, those of every shard."""
        return self._whole.redactor

    def open_source(self) -> GitHubSource:
        """Return the branch as it stands now; GitHub is asked once, and not again if it does not answer."""
        gateway = self._gateway(self._deadline, attempts=1)
        return GitHubSource(gateway, self.cache, self.layout, self.settings.branch)

    def begun(self) -> frozenset[str]:
        """Return the runs with a write under way here: it must be finished here."""
        return frozenset(write.run_id for write in pending_writes(self.spool.notes()))

    def sort_out(self, pending: Sequence[QueueItem]) -> tuple[Sequence[QueueItem], str]:
        """Return what is to be written here, and why the rest is not yet; what others store goes to them."""
        name, homes, reason = self.repository, self._whole.homes, ""
        deadline = self._drain_deadline  # others ask through the same ways, and have more time
        found: dict[str, str] = {}
        for run_id in dict.fromkeys(item.run_id for item in pending):
            try:
                with waiting_at_most(deadline.longest_wait_s()):
                    found[run_id] = homes.settle(run_id, name)
            except GatewayError as error:
                reason = f"whether another shard has run {run_id!r} is not known: {error}"
                if deadline.is_late():
                    break
        if any(home != name for home in found.values()):
            found |= dict.fromkeys(self.begun() & found.keys(), name)
            theirs: dict[str, list[QueueItem]] = {}
            for item in pending:
                if (home := found.get(item.run_id, name)) != name:
                    theirs.setdefault(home, []).append(item)
            reason = self._whole.hand_on(self, theirs) or reason
        return [item for item in pending if found.get(item.run_id) == name], reason


def _items_of(shard: Assembly, run_ids: set[str]) -> list[QueueItem]:
    return [item for item in shard.spool.pending() if item.run_id in run_ids]

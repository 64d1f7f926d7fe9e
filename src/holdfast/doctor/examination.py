"""Looks at everything that a judgement needs, all of GitHub at once and within a few seconds."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import orjson

from holdfast.disk import make_private_folder
from holdfast.doctor import judgement
from holdfast.doctor.judgement import Check, Diagnosis
from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import parse_outage
from holdfast.errors import (
    GatewayError,
    HoldfastError,
    InvalidSettings,
    Missing,
    SpoolError,
    Unavailable,
)
from holdfast.format.paths import LATEST
from holdfast.format.stored_file import open_checkpoint
from holdfast.format.versions import FORMAT_VERSION
from holdfast.github.calls import NO_GRAPHQL

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.assembly.ground import Ground
    from holdfast.github.calls import Call, Gateway

LONGEST_S = 3.5
"""How long all of it may take, whatever hangs: with the start of the command and its end, less than five."""
LEAST_S = 1.5
"""What those who are asked have in any case: a machine that is slow to load us is no reason to doubt them."""
_TELLING_S = 0.2
"""Kept back for those who wait for GitHub, so that they can say what it did not answer."""

Looks: TypeAlias = dict[str, Callable[[], Iterable[Check]]]

THREADS = "holdfast-doctor"
SAMPLED_RUNS = 3
_PROBE_BYTES = 4096
_PROBES = 3
_EXPIRY_HEADER = "github-authentication-token-expiration"


def examine(
    assembly: "Ground", *, unknown_variables: Mapping[str, str] | None = None, began: float | None = None
) -> Diagnosis:
    """Return what is in order and what is not. Nothing is written but a probe in the data folder.

    Whatever hangs, it ends LONGEST_S after `began`, by the monotonic clock: a command counts what it had to
    load as well.
    """
    settings = assembly.settings
    began = time.monotonic() if began is None else began
    _load(assembly)
    deadline = max(began + LONGEST_S, time.monotonic() + LEAST_S)
    told = judgement.judge_settings(settings.sources, unknown_variables or {}, is_enabled=settings.enabled)
    probe: Looks = {"data folder": lambda: [_examine_folder(settings.data_dir, settings.min_free_bytes)]}
    folder = _look_at_once(probe, deadline)
    looks: Looks = {
        "keys": lambda: _examine_keys(assembly),
        "database": lambda: _examine_database(assembly),
        "spool": lambda: [_examine_queue(assembly)],
    }
    # The embedded GitHub lies in the data folder, too.
    if settings.data_dir.is_dir() or not settings.is_embedded:
        looks |= {
            f"github ({shard.repository})": partial(_examine_github, shard, deadline - _TELLING_S)
            for shard in assembly.shards
        }
    others = _look_at_once(looks, deadline)
    found = {"keys": others.pop("keys"), **folder, **others}
    if len(assembly.shards) > 1:
        found |= {name: _with_suffix(name, checks) for name, checks in found.items()}
    return Diagnosis((told, *chain.from_iterable(found.values())))


def _load(assembly: "Ground") -> None:
    """Load what is needed to ask, and start the embedded GitHub: that is our time, not theirs."""
    for module in ("client", "inspection", "wrappers.budgeted"):
        import_module(f"holdfast.github.{module}")
    with suppress(HoldfastError):  # told by those who look
        if assembly.settings.database_url:
            _ = assembly.database
        if assembly.settings.is_embedded:
            _ = assembly.shards[0].embedded


def _look_at_once(looks: Looks, deadline: float) -> dict[str, list[Check]]:
    """Return what each of them finds; whatever hangs is told, and keeps none of the others."""
    answers: SimpleQueue[tuple[str, list[Check] | BaseException]] = SimpleQueue()

    def look(name: str) -> None:
        try:
            answers.put((name, list(looks[name]())))
        except BaseException as error:
            answers.put((name, error))

    for name in looks:
        # Daemons: one that hangs must not keep the process from its end.
        threading.Thread(target=look, args=(name,), name=THREADS, daemon=True).start()
    found = {name: [judgement.judge_late(name.partition(" (")[0])] for name in looks}
    with suppress(Empty):
        for _ in looks:
            name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            if isinstance(answer, BaseException):
                raise answer
            found[name] = answer
    return found


def _with_suffix(name: str, checks: Sequence[Check]) -> list[Check]:
    """Return what is to say of one repository of several, under its name."""
    suffix = name.removeprefix("github") if name.startswith("github (") else ""
    return [replace(check, name=check.name + suffix) for check in checks]


def _examine_database(assembly: "Ground") -> Iterator[Check]:
    """Yield what is to say of the database that machines share, where there is one."""
    if assembly.settings.database_url is None:
        return
    began = time.perf_counter()
    try:
        version, is_synced, is_writable = assembly.database.examine()
    except HoldfastError as error:
        yield judgement.judge_absent_database(str(error))
        return
    took_s = time.perf_counter() - began
    yield judgement.judge_database(version, is_synced=is_synced, is_writable=is_writable, took_s=took_s)


def _examine_keys(assembly: "Ground") -> Iterator[Check]:
    """Yield what is to say of the keys, where any are set."""
    settings = assembly.settings
    files = [file for file in (settings.encryption_key_file, settings.signing_key_file) if file]
    if not (files or settings.encryption_key or settings.signing_key):
        return
    try:
        sealing, signing = assembly.keyring.keys, assembly.signatures.keys
    except InvalidSettings as error:
        yield judgement.judge_unreadable_keys(str(error))
        return
    exposed = [str(file) for file in files if file.stat().st_mode & 0o077]
    yield judgement.judge_keys(sealing, signing, exposed)


def _examine_folder(folder: Path, min_free_bytes: int) -> Check:
    try:
        make_private_folder(folder)
        sync_s = min(_sync_once(folder) for _ in range(_PROBES))
    except (OSError, SpoolError) as error:
        return judgement.judge_unwritable_folder(str(folder), error)
    return judgement.judge_folder(
        str(folder),
        free_bytes=shutil.disk_usage(folder).free,
        min_free_bytes=min_free_bytes,
        sync_s=sync_s,
        kind=_file_system(folder),
    )


def _sync_once(folder: Path) -> float:
    """Return how long it takes until a few bytes are on the disk."""
    probe = folder / f".doctor-{uuid4().hex}"
    try:
        with probe.open("wb") as file:
            file.write(b"\0" * _PROBE_BYTES)
            began = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            return time.perf_counter() - began
    finally:
        probe.unlink(missing_ok=True)


def _file_system(folder: Path) -> str:
    """Return the type of the file system that a folder lies on; empty where the system does not tell."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
        path = folder.resolve()
        found = [(mount[1], mount[2]) for mount in mounts if path.is_relative_to(mount[1])]
        return max(found, key=lambda mount: len(mount[0]), default=("", ""))[1]
    return ""


def _examine_queue(assembly: "Ground") -> Check:
    settings = assembly.settings
    try:
        status = assembly.spool.status(assembly.clock.now())
        outage = parse_outage(assembly.spool.notes().get(OUTAGE_NOTE))
    except HoldfastError as error:
        return Check("spool", False, str(error), "docs/operations.md says what each of these takes.")
    return judgement.judge_queue(
        status,
        max_bytes=settings.max_spool_bytes,
        max_items=settings.max_spool_items,
        last_error=outage.sentence if outage else None,
    )


@dataclass(frozen=True, slots=True)
class _Consultation:
    """Asks GitHub many things at once."""

    gateway: "Gateway"
    deadline: float

    def ask(self, calls: Mapping[str, "Call[Any]"]) -> dict[str, Any]:
        """Return the answer to each call, or the GatewayError in its place, at the deadline at last."""
        answers: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        for name, call in calls.items():
            # Daemons: one that hangs must not keep the process from its end.
            arguments = (name, call, answers)
            threading.Thread(target=self._ask, args=arguments, name=THREADS, daemon=True).start()
        left_s = max(0.0, self.deadline - time.monotonic())
        late = Unavailable("", f"GitHub did not answer within {left_s:.1f} s")
        found: dict[str, Any] = dict.fromkeys(calls, late)
        with suppress(Empty):
            for _ in calls:
                name, answer = answers.get(timeout=max(0.0, self.deadline - time.monotonic()))
                found[name] = answer
        return found

    def _ask(self, name: str, call: "Call[Any]", answers: "SimpleQueue[tuple[str, Any]]") -> None:
        try:
            answers.put((name, self.gateway.perform(call)))
        except HoldfastError as error:
            answers.put((name, error))


def _examine_github(assembly: "Assembly", deadline: float) -> Iterator[Check]:
    settings = assembly.settings
    headers: dict[str, str] = {}
    if not (assembly.tokens.is_set or settings.is_embedded):
        yield _judge_absent_token(assembly)
        return
    try:
        opened = ExitStack()
        gateway = opened.enter_context(
            assembly.open_inspection(lambda answer: headers.update(answer.headers))
        )
    except HoldfastError as error:
        advice = "Correct what it names; holdfast config shows every setting."
        yield Check("github", False, str(error), advice)
        return
    # A sidecar is asked again and again: what was opened for an answer goes with it.
    with opened:
        yield from _consult(assembly, _Consultation(gateway, deadline), headers)


def _consult(
    assembly: "Assembly", consultation: _Consultation, headers: Mapping[str, str]
) -> Iterator[Check]:
    """Yield what GitHub's answers tell."""
    from holdfast.github.calls import ListFolder
    from holdfast.github.inspection import CountCommits, ReadProtection, ReadRepository, ReadRules, ReadViewer

    settings = assembly.settings
    found = consultation.ask(
        {
            "repository": ReadRepository(),
            "viewer": ReadViewer(),
            "protection": ReadProtection(settings.branch),
            "rules": ReadRules(settings.branch),
            "graphql": CountCommits(settings.branch),
            "folder": ListFolder(settings.base_path, settings.branch),
        }
    )
    if isinstance(found["repository"], GatewayError):
        yield judgement.judge_failure("github", found["repository"])
        return
    server_time = assembly.rate_limiter.budget.clock_skew.server_time(assembly.clock.now())
    yield Check("github", True, "the embedded one answers" if settings.is_embedded else settings.api_url)
    yield (
        judgement.judge_token(found["viewer"], headers.get(_EXPIRY_HEADER, ""), server_time)
        if assembly.tokens.is_set
        else _judge_absent_token(assembly)
    )
    yield from judgement.judge_repository(found["repository"])
    yield _judge_branch(settings.branch, found)
    yield judgement.judge_limits(assembly.rate_limiter.report())
    yield judgement.judge_clock(server_time - assembly.clock.now())
    is_graphql_there = not (isinstance(found["graphql"], Missing) and found["graphql"].path == NO_GRAPHQL)
    yield judgement.judge_graphql(is_there=is_graphql_there, write_mode=settings.write_mode)
    sample = _sample(assembly, consultation, found["folder"])
    yield judgement.judge_formats(None if sample is None else _formats_of(sample), FORMAT_VERSION)
    yield from _try_keys(assembly, sample or {})


def _judge_absent_token(assembly: "Assembly") -> Check:
    file = assembly.settings.token_file
    return judgement.judge_absent_token(
        str(file) if file else None, is_needed=not assembly.settings.is_embedded
    )


def _judge_branch(branch: str, found: Mapping[str, Any]) -> Check:
    """Judge the branch by the answers; what a server does not tell is taken for not guarded."""
    protection, rules = found["protection"], found["rules"]
    return judgement.judge_branch(
        branch,
        is_there=not isinstance(protection, Missing),
        is_protected=protection is True,
        rules=() if isinstance(rules, GatewayError) else rules,
    )


def _sample(assembly: "Assembly", consultation: _Consultation, folder: Any) -> dict[str, bytes] | None:
    """Return the newest checkpoint of some runs, by its path; None if GitHub does not tell."""
    from holdfast.github.calls import ReadFile

    if isinstance(folder, GatewayError):
        return {} if isinstance(folder, Missing) else None
    branch = assembly.settings.branch
    runs = [entry.path for entry in folder.entries if entry.kind == "folder"][-SAMPLED_RUNS:]
    paths = [assembly.layout.path(run_id, LATEST) for run_id in runs]
    answers = consultation.ask({path: ReadFile(path, branch) for path in paths})
    told = {path: answer.content for path, answer in answers.items() if not isinstance(answer, HoldfastError)}
    return told if told or not paths else None


def _formats_of(sample: Mapping[str, bytes]) -> dict[str, int]:
    """Return the format of each checkpoint by its run; what is none is left out."""
    versions: dict[str, int] = {}
    for path, content in sample.items():
        with suppress(AttributeError, ValueError, TypeError):
            run_id = path.rsplit("/", 2)[1]
            versions[run_id] = int(orjson.loads(content).get("format_version", FORMAT_VERSION))
    return versions


def _try_keys(assembly: "Assembly", sample: Mapping[str, bytes]) -> Iterator[Check]:
    """Yield whether the keys here open what is stored, where anything of that is sealed."""
    sealed = {path: content for path, content in sample.items() if b'"$sealed"' in content}
    if not sealed:
        return
    try:
        keyring = assembly.keyring
    except InvalidSettings:  # told by the line of the keys
        return
    opened = 0
    for path, content in sealed.items():
        with suppress(HoldfastError):
            keyring.open(open_checkpoint(content, path), path)
            opened += 1
    is_writer_only = bool(keyring.keys) and not any(key.is_private for key in keyring.keys)
    yield judgement.judge_sealed(len(sealed), opened, is_writer_only=is_writer_only)

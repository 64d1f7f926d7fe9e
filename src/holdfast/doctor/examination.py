"""Looks at everything that a judgement needs, all of GitHub at once and within a few seconds."""

import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson

from holdfast.doctor import judgement
from holdfast.doctor.judgement import Check, Diagnosis
from holdfast.drain.outage import NOTE, parse_outage
from holdfast.errors import (
    GatewayError,
    HoldfastError,
    InvalidSettings,
    Missing,
    SpoolError,
    Unavailable,
)
from holdfast.format.paths import LATEST
from holdfast.format.versions import FORMAT_VERSION
from holdfast.github.calls import NO_GRAPHQL

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.github.calls import Call, Gateway

ANSWER_WITHIN_S = 2.2
"""How long GitHub may take; it is asked twice at most, and all of it stays below five seconds."""

SAMPLED_RUNS = 3
_PROBE_BYTES = 4096
_PROBES = 3
_EXPIRY_HEADER = "github-authentication-token-expiration"


def examine(assembly: "Assembly", *, unknown_variables: Mapping[str, str] | None = None) -> Diagnosis:
    """Return what is in order and what is not. Nothing is written but a probe in the data folder."""
    settings = assembly.settings
    told = judgement.judge_settings(settings.sources, unknown_variables or {}, is_enabled=settings.enabled)
    folder = _examine_folder(settings.data_dir, settings.min_free_bytes)
    # The embedded GitHub lies in the data folder, too.
    has_github = settings.data_dir.is_dir() or not settings.is_embedded
    github = _examine_github(assembly) if has_github else ()
    return Diagnosis((told, *_examine_keys(assembly), folder, _examine_queue(assembly), *github))


def _examine_keys(assembly: "Assembly") -> Iterator[Check]:
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
    from holdfast.disk import make_private_folder

    try:
        make_private_folder(folder)
        sync_s = min(_sync_once(folder) for _ in range(_PROBES))
    except (OSError, SpoolError) as error:
        advice = "Give this user the right to write there, or choose another folder with HOLDFAST_DATA_DIR."
        return Check("data folder", False, f"{folder} cannot be written to: {error}", advice)
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


def _examine_queue(assembly: "Assembly") -> Check:
    settings = assembly.settings
    try:
        status = assembly.spool.status(assembly.clock.now())
        outage = parse_outage(assembly.spool.notes().get(NOTE))
    except SpoolError as error:
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

    def ask(self, calls: Mapping[str, "Call[Any]"]) -> dict[str, Any]:
        """Return the answer to each call, or the GatewayError in its place, after ANSWER_WITHIN_S at most."""
        answers: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        for name, call in calls.items():
            # Daemons: one that hangs must not keep the process from its end.
            threading.Thread(target=self._ask, args=(name, call, answers), daemon=True).start()
        late = Unavailable("", f"GitHub did not answer within {ANSWER_WITHIN_S:g} s")
        found: dict[str, Any] = dict.fromkeys(calls, late)
        deadline = time.monotonic() + ANSWER_WITHIN_S
        with suppress(Empty):
            for _ in calls:
                name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
                found[name] = answer
        return found

    def _ask(self, name: str, call: "Call[Any]", answers: "SimpleQueue[tuple[str, Any]]") -> None:
        try:
            answers.put((name, self.gateway.perform(call)))
        except HoldfastError as error:
            answers.put((name, error))


def _examine_github(assembly: "Assembly") -> Iterator[Check]:
    from holdfast.github.calls import CountCommits, ListFolder, ReadRepository
    from holdfast.github.inspection import ReadProtection, ReadRules, ReadViewer

    settings = assembly.settings
    headers: dict[str, str] = {}
    is_token_set = assembly.tokens.is_set
    if not (is_token_set or settings.is_embedded):
        yield judgement.judge_token(None, "", 0, is_needed=True, is_set=False)
        return
    try:
        consultation = _Consultation(assembly.open_inspection(lambda answer: headers.update(answer.headers)))
    except HoldfastError as error:
        advice = "Correct what it names; holdfast config shows every setting."
        yield Check("github", False, str(error), advice)
        return
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
    yield judgement.judge_token(
        found["viewer"] if isinstance(found["viewer"], str) else None,
        headers.get(_EXPIRY_HEADER, ""),
        server_time,
        is_needed=not settings.is_embedded,
        is_set=is_token_set,
    )
    yield from judgement.judge_repository(found["repository"])
    yield _judge_branch(settings.branch, found)
    yield judgement.judge_limits(assembly.rate_limiter.report())
    yield judgement.judge_clock(server_time - assembly.clock.now())
    is_graphql_there = not (isinstance(found["graphql"], Missing) and found["graphql"].path == NO_GRAPHQL)
    yield judgement.judge_graphql(is_there=is_graphql_there, write_mode=settings.write_mode)
    yield judgement.judge_formats(_sample_formats(assembly, consultation, found["folder"]), FORMAT_VERSION)


def _judge_branch(branch: str, found: Mapping[str, Any]) -> Check:
    """Judge the branch by the answers; what a server does not tell is taken for not guarded."""
    protection, rules = found["protection"], found["rules"]
    return judgement.judge_branch(
        branch,
        is_there=not isinstance(protection, Missing),
        is_protected=protection is True,
        rules=() if isinstance(rules, GatewayError) else rules,
    )


def _sample_formats(assembly: "Assembly", consultation: _Consultation, folder: Any) -> dict[str, int]:
    """Return the format of the newest checkpoint of some runs."""
    from holdfast.github.calls import ReadFile

    if isinstance(folder, GatewayError):
        return {}
    branch = assembly.settings.branch
    runs = [entry.path for entry in folder.entries if entry.kind == "folder"][-SAMPLED_RUNS:]
    answers = consultation.ask(
        {run_id: ReadFile(assembly.layout.path(run_id, LATEST), branch) for run_id in runs}
    )
    versions: dict[str, int] = {}
    for run_id, answer in answers.items():
        with suppress(AttributeError, ValueError, TypeError):
            versions[run_id] = int(orjson.loads(answer.content).get("format_version", FORMAT_VERSION))
    return versions

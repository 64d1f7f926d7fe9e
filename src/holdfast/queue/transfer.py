"""Moving unsent checkpoints by hand: out of one queue into a folder of files, and into another queue.

A folder holds `<checkpoint_id>.json` for each checkpoint, byte for byte as it was spooled, and
`manifest.json`, which is written last: a folder without it is not a whole export.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from holdfast.disk import digest_of, sync_folder, translate
from holdfast.errors import HoldfastError, InvalidCheckpoint, SpoolDamaged, SpoolError
from holdfast.format.receipt import QueueItem
from holdfast.queue.contract import NewItem, Queue

FORMAT_VERSION = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ExportedCheckpoint:
    """One checkpoint of an export, and the digest of its file."""

    checkpoint_id: str
    run_id: str
    sequence: int
    trigger: str
    priority: str
    sha256: str
    bytes: int
    set_aside: str | None = None
    is_automatic: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export holds, and which checkpoints it had to leave behind because they are damaged."""

    format_version: int
    count: int
    checkpoints: tuple[ExportedCheckpoint, ...]
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of each checkpoint of an export, by id; `refused` says why."""

    taken: tuple[str, ...]
    known: tuple[str, ...]
    damaged: tuple[str, ...]
    refused: dict[str, str]


def export_spool(spool: Queue, folder: Path) -> Manifest:
    """Write every unsent checkpoint of `spool`, waiting or set aside, to `folder`. The spool stays as it is.

    An export that is there already, of whatever spool, is added to. Raises InvalidCheckpoint if its manifest
    cannot be read, SpoolUnwritable when the folder does not take them.
    """
    others = _read_rows(folder) if (folder / MANIFEST).exists() else []
    waiting: list[tuple[QueueItem, str | None]] = [(item, None) for item in spool.pending()]
    aside: list[tuple[QueueItem, str | None]] = [
        (each.item, each.reason) for each in spool.set_aside_entries()
    ]
    exported: list[ExportedCheckpoint] = []
    damaged: list[str] = []
    with _our_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for item, reason in waiting + aside:
            try:
                body = spool.read(item)
            except SpoolDamaged:
                damaged.append(item.checkpoint_id)
                continue
            _write_file(folder / _name(item.checkpoint_id), body)
            exported.append(_describe(item, body, reason))
        manifest = Manifest(FORMAT_VERSION, len(exported), tuple(exported), tuple(damaged))
        ours = {each.checkpoint_id for each in exported}
        rows = [*exported, *(row for row in others if row.get("checkpoint_id") not in ours)]
        whole = {**asdict(manifest), "count": len(rows), "checkpoints": rows}
        _write_file(folder / MANIFEST, orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        sync_folder(folder)
    return manifest


def import_spool(spool: Queue, folder: Path, read_item: Callable[[bytes], NewItem]) -> ImportReport:
    """Put every checkpoint of an export into `spool`; importing it again changes nothing.

    Raises InvalidCheckpoint if there is no usable manifest, SpoolFull and SpoolUnwritable as `put` does.
    """
    taken: list[str] = []
    known: list[str] = []
    damaged: list[str] = []
    refused: dict[str, str] = {}
    for checkpoint_id, sha256, is_automatic in _read_manifest(folder):
        body = _read_file(folder / _name(checkpoint_id))
        if body is None or digest_of(body).hex() != sha256:
            damaged.append(checkpoint_id)
            continue
        is_known = spool.receipt(checkpoint_id) is not None
        try:
            new_item = read_item(body)
            spool.put(new_item.without_number() if is_automatic else new_item)
        except SpoolError:
            raise
        except HoldfastError as error:
            refused[checkpoint_id] = str(error)
            continue
        (known if is_known else taken).append(checkpoint_id)
    return ImportReport(tuple(taken), tuple(known), tuple(damaged), refused)


def _describe(item: QueueItem, body: bytes, reason: str | None) -> ExportedCheckpoint:
    return ExportedCheckpoint(
        item.checkpoint_id,
        item.run_id,
        item.sequence,
        str(item.trigger),
        str(item.priority),
        digest_of(body).hex(),
        len(body),
        reason,
        item.is_automatic,
    )


def _name(checkpoint_id: str) -> str:
    if "/" in checkpoint_id or "\0" in checkpoint_id:
        raise InvalidCheckpoint("checkpoint_id", f"{checkpoint_id!r} cannot name a file")
    return f"{checkpoint_id}.json"


def _read_manifest(folder: Path) -> list[tuple[str, str, bool]]:
    """Return id and digest of each checkpoint, and whether its number was given by the spool it comes from.

    They come in the order of their numbers, so that those that get new ones keep it.
    Raises InvalidCheckpoint.
    """
    try:
        return [
            (str(each["checkpoint_id"]), str(each["sha256"]), bool(each.get("is_automatic")))
            for each in sorted(_read_rows(folder), key=itemgetter("sequence"))
        ]
    except (KeyError, TypeError) as error:
        raise _no_manifest(folder) from error


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return what the manifest says of each checkpoint. Raises InvalidCheckpoint."""
    content = _read_file(folder / MANIFEST)
    if content is None:
        raise InvalidCheckpoint(
            MANIFEST, f"it is not in {folder}; name a folder that holdfast spool export has written"
        )
    try:
        manifest: dict[str, Any] = orjson.loads(content)
        version, rows = manifest["format_version"], list(manifest["checkpoints"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_manifest(folder) from error
    if version != FORMAT_VERSION:
        raise InvalidCheckpoint(MANIFEST, f"format {version} is not one that this Holdfast reads")
    return rows


def _no_manifest(folder: Path) -> InvalidCheckpoint:
    return InvalidCheckpoint(MANIFEST, f"what {folder} holds is not the manifest of an export")


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise translate(error, path.parent) from error


def _write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


@contextmanager
def _our_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translate(error, folder) from error

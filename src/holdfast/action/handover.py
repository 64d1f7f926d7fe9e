"""What a vanishing runner leaves behind: unsent checkpoints, in a folder that another job can take in."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.format.receipt import Progress
from holdfast.presentation.render import format_count
from holdfast.presentation.session import Session
from holdfast.queue.transfer import MANIFEST


@dataclass(frozen=True, slots=True)
class Handover:
    """How much is unsent, and where it was written out; `folder` is None if nothing is left."""

    left: int
    folder: Path | None = None
    problems: tuple[str, ...] = ()

    @property
    def outputs(self) -> dict[str, str]:
        """Return the outputs that tell of it."""
        return {"spool-dir": str(self.folder or ""), "left": str(self.left)}


def hand_over(session: Session, folder: Path, reason: str = "") -> Handover:
    """Write out what is unsent, and take out of the folder what is verified. The spool stays as it is."""
    status = session.holdfast.status()
    waiting, refused = status["spool"]["depth"], status["set_aside"]
    if not (waiting or status["spool"]["set_aside"]):
        _clear(folder, _verified(session, folder))
        return Handover(0)
    manifest = session.holdfast.export_spool(folder)
    _clear(folder, _verified(session, folder))
    problems = []
    if waiting:
        why = (reason or status["last_error"] or status["budget"]["blocked_because"] or "").rstrip(".")
        problems.append(
            f"{format_count(waiting)} not in the repository yet{f': {why}' if why else ''}. "
            f"It lies in {folder}: drain it in a later step, or upload that folder for another job."
        )
    problems += [f"checkpoint {each['checkpoint_id']} was refused: {each['reason']}" for each in refused]
    problems += [f"checkpoint {each} is damaged and was not written out" for each in manifest.damaged]
    return Handover(manifest.count, folder, tuple(problems))


def take_in(session: Session, folder: Path) -> list[str]:
    """Put into the spool what earlier jobs wrote to `folder`, or to folders in it. Returns what went wrong.

    What is in the spool then leaves the folder; doing it again changes nothing.
    """
    problems: list[str] = []
    for export in list(_exports(folder)):
        report = session.holdfast.import_spool(export)
        problems += [f"checkpoint {each} in {export} is damaged" for each in report.damaged]
        problems += [f"checkpoint {each} in {export}: {why}" for each, why in report.refused.items()]
        _clear(export, {*report.taken, *report.known})
    return problems


def _exports(folder: Path) -> Iterator[Path]:
    """Yield each folder with an export: the artifacts of several jobs come as folders in one."""
    for manifest in (folder / MANIFEST, *sorted(folder.glob(f"*/{MANIFEST}"))):
        if manifest.is_file():
            yield manifest.parent


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.json") if file.name != MANIFEST]


def _verified(session: Session, folder: Path) -> set[str]:
    """Return the checkpoints of an earlier export that are in the repository by now."""
    receipts = {file.stem: session.holdfast.receipt(file.stem) for file in _files(folder)}
    return {name for name, receipt in receipts.items() if receipt and receipt.status is Progress.VERIFIED}


def _clear(folder: Path, checkpoint_ids: Iterable[str]) -> None:
    """Remove these checkpoints' files from an export, and all of it if nothing is left in it."""
    if not (folder / MANIFEST).is_file():
        return
    for checkpoint_id in checkpoint_ids:
        (folder / f"{checkpoint_id}.json").unlink(missing_ok=True)
    if not _files(folder):
        (folder / MANIFEST).unlink()
        if not any(folder.iterdir()):
            folder.rmdir()

"""What a vanishing runner leaves behind: unsent checkpoints, in a folder that another job can take in."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.render import format_count
from holdfast.cli.session import Session

MANIFEST = "manifest.json"


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
    """Write out what is unsent, in the place of an earlier export. The spool stays as it is."""
    status = session.holdfast.status()
    waiting, refused = status["spool"]["depth"], status["set_aside"]
    if not (waiting or status["spool"]["set_aside"]):
        _clear(folder, _names(folder))
        return Handover(0)
    manifest = session.holdfast.export_spool(folder)
    _clear(folder, _names(folder) - {each.checkpoint_id for each in manifest.checkpoints}, keep_manifest=True)
    problems = []
    if waiting:
        why = reason or status["last_error"] or status["budget"]["blocked_because"]
        problems.append(
            f"{format_count(waiting)} not in the repository yet{f': {why}' if why else ''}. "
            f"It lies in {folder}: drain it in a later step, or upload that folder for another job."
        )
    problems += [f"GitHub refused checkpoint {each['checkpoint_id']}: {each['reason']}" for each in refused]
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
        has_rest = bool(report.damaged or report.refused)
        _clear(export, {*report.taken, *report.known}, keep_manifest=has_rest)
    return problems


def _exports(folder: Path) -> Iterator[Path]:
    """Yield each folder with an export: the artifacts of several jobs come as folders in one."""
    for manifest in (folder / MANIFEST, *sorted(folder.glob(f"*/{MANIFEST}"))):
        if manifest.is_file():
            yield manifest.parent


def _names(folder: Path) -> set[str]:
    return (
        {file.stem for file in folder.glob("*.json") if file.name != MANIFEST}
        if _is_export(folder)
        else set()
    )


def _is_export(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _clear(folder: Path, checkpoint_ids: Iterable[str], *, keep_manifest: bool = False) -> None:
    """Remove these checkpoints' files from an export, and the folder if nothing is left in it."""
    if not _is_export(folder):
        return
    if not keep_manifest:
        (folder / MANIFEST).unlink()
    for checkpoint_id in checkpoint_ids:
        (folder / f"{checkpoint_id}.json").unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()

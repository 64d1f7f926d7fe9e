"""`holdfast spool export`, `import` and `restore`: moving unsent checkpoints by hand."""

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_count


def register(commands: Commands) -> None:
    """Add the group and its commands."""
    group = commands.add_group(
        "spool",
        description="Move unsent checkpoints by hand, from one machine or repository to another.",
        example="holdfast spool export unsent",
    )
    export = group.add(
        "export",
        export_to,
        operands="DIR",
        description="Write every unsent checkpoint to a folder, as a file each. The spool stays as it is.",
        example="holdfast spool export unsent",
    )
    export.add_argument(
        "folder", metavar="DIR", type=Path, help="a new or an empty folder, or an earlier export"
    )
    take_in = group.add(
        "import",
        import_from,
        operands="DIR",
        description="Put every checkpoint of an export into the spool. Doing it again changes nothing.",
        example="holdfast spool import unsent && holdfast drain",
    )
    take_in.add_argument("folder", metavar="DIR", type=Path, help="what holdfast spool export wrote")
    restore = group.add(
        "restore",
        restore_set_aside,
        operands="[ID…]",
        description="Put what GitHub refused, and was set aside, back into the line: all of it, or these.",
        example="holdfast spool restore && holdfast drain",
    )
    restore.add_argument("checkpoint_ids", metavar="ID", nargs="*", help="which ones; see holdfast status")
    restore.add_argument(
        "--redact", action="store_true", help="take credentials out first, for GitHub's push protection"
    )


def export_to(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Write the spool to a folder."""
    folder = _check_target(arguments.folder)
    with open_session(arguments) as session:
        manifest = session.holdfast.export_spool(folder)
    if screen.is_json:
        screen.document({"folder": str(folder), **asdict(manifest)})
    else:
        screen.say(f"{format_count(manifest.count)} exported to {folder}.")
    return _judge("damaged in the spool and not exported", manifest.damaged, screen)


def import_from(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Take in what an export holds."""
    with open_session(arguments) as session:
        report = session.holdfast.import_spool(arguments.folder)
    if screen.is_json:
        screen.document({"folder": str(arguments.folder), **asdict(report)})
    else:
        screen.say(f"{format_count(len(report.taken))} imported, {len(report.known):,} known before.")
    code = _judge("damaged and not imported", report.damaged, screen)
    refused = [f"{checkpoint_id} ({reason})" for checkpoint_id, reason in report.refused.items()]
    return max(code, _judge("refused", refused, screen))


def restore_set_aside(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Have set-aside checkpoints tried again."""
    with open_session(arguments) as session:
        restored = session.holdfast.restore(arguments.checkpoint_ids or None, redact=arguments.redact)
    if screen.is_json:
        screen.document({"restored": restored})
    else:
        screen.say(f"{format_count(len(restored))} put back into the spool.")
    return ExitCode.DONE


def _check_target(folder: Path) -> Path:
    """Return `folder` if an export may fill it: it becomes this user's alone, and must hold nothing else."""
    from holdfast.queue.transfer import MANIFEST

    try:
        is_foreign = folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir())
    except OSError as error:
        raise WrongUse(f"{folder} cannot be exported to: {error.strerror}; name a new folder") from error
    if is_foreign:
        raise WrongUse(f"{folder} holds other files; name a new folder")
    return folder


def _judge(what: str, names: Iterable[str], screen: Screen) -> ExitCode:
    failures = list(names)
    if not failures:
        return ExitCode.DONE
    screen.warn(f"{format_count(len(failures))} {what}: {', '.join(failures)}")
    return ExitCode.FAILED

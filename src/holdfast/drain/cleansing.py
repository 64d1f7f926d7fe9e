"""Takes credentials out of checkpoints that GitHub's push protection had set aside, and puts them back."""

from collections.abc import Callable, Iterable

from holdfast.errors import Remedy, UnknownRun
from holdfast.format.checkpoint import Draft, draft_from_text
from holdfast.format.receipt import QueueItem
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.security.redaction import Redactor
from holdfast.security.search import RedactMode

# What GitHub takes for a secret, we may not know by its shape; then its name may tell.
_MODES: tuple[RedactMode, ...] = ("known", "strict")


def restore_redacted(
    spool: Queue, checkpoint_ids: Iterable[str], secrets: Callable[[], Iterable[str]]
) -> list[str]:
    """Put those of the checkpoints back that hold credentials, without these; return their ids.

    Where none is found, it stays set aside: GitHub would refuse it again. Raises SpoolBusy while someone
    drains, UnknownRun for one that is not set aside, SpoolDamaged.
    """
    aside = {entry.item.checkpoint_id: entry.item for entry in spool.set_aside_entries()}
    restored = []
    with spool.drainer():
        for checkpoint_id in checkpoint_ids:
            if checkpoint_id not in aside:
                raise UnknownRun(f"no checkpoint {checkpoint_id} is set aside", Remedy("set_aside"))
            if _cleanse(spool, aside[checkpoint_id], secrets):
                restored.append(checkpoint_id)
    return restored


def _cleanse(spool: Queue, item: QueueItem, secrets: Callable[[], Iterable[str]]) -> bool:
    draft = draft_from_text(spool.read(item), now="", new_id=lambda: "")
    redacted = _redact(draft, secrets)
    if redacted is None:
        log.warning(
            "no_credential_found",
            checkpoint_id=item.checkpoint_id,
            advice="Take it out yourself, or allow it in GitHub; then holdfast spool restore.",
        )
        return False
    # A crash in between leaves it in the line as it was, and GitHub refuses it as before.
    spool.restore(item.checkpoint_id)
    spool.renumber(item, item.sequence, redacted.body(item.sequence))
    kinds = sorted({place.kind for place in redacted.redacted})
    log.info("checkpoint_redacted", checkpoint_id=item.checkpoint_id, kinds=kinds)
    return True


def _redact(draft: Draft, secrets: Callable[[], Iterable[str]]) -> Draft | None:
    for mode in _MODES:
        redacted = Redactor(mode, secrets).redact(draft)
        if redacted.texts != draft.texts:
            return redacted
    return None

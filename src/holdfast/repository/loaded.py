"""A checkpoint that was found to be whole, and which one that is where spool and repository have several."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import UNNAMED_PHASE
from holdfast.jsontext.members import parse_document
from holdfast.repository.past import SpooledPast, look_back
from holdfast.repository.queued import SpooledRun
from holdfast.repository.stored_run import StoredRun
from holdfast.styles.review import Past

if TYPE_CHECKING:
    from holdfast.styles.resume import Source


class Loaded(NamedTuple):
    """A checkpoint that was found to be whole, where it came from, and what was passed over on the way.

    `earlier` reads the checkpoints before it, the newest first; it raises GatewayError once GitHub does not
    answer any more. `past` tells what the index and the spool say of them.
    """

    envelope: Envelope
    source: "Source"
    warnings: Sequence[str]
    earlier: Iterable[Envelope] = ()
    past: Callable[[], Past] = Past


def tell_native(envelope: Envelope) -> list[str]:
    """Return a warning if the state is a checkpoint of another system: its progress is not understood."""
    if envelope.header.phase != UNNAMED_PHASE or b'"progress"' in envelope.content:
        return []
    from holdfast.importing.formats import name_format

    found = name_format(parse_document(envelope.content).outline().get("state_snapshot"))
    if found is None:
        return []
    return [f"the state looks like {found}: take it in with holdfast import, so that the run goes on there"]


def load_stored(envelope: Envelope, run: StoredRun, waiting: SpooledRun, past: SpooledPast) -> Loaded:
    """Return a stored checkpoint with what can be told of those before it."""
    warnings = [*waiting.warnings, *run.warnings]
    earlier = run.before(envelope.sequence)
    return Loaded(envelope, run.source.source, warnings, earlier, lambda: look_back(run, waiting, past))


def prefer_aside(loaded: Loaded, waiting: SpooledRun) -> Loaded:
    """Prefer a newer checkpoint that was set aside: it was accepted here, though GitHub refuses it."""
    newer = waiting.newest_aside(loaded.envelope.sequence, loaded.envelope.header.fence or 0)
    # Looking for it may have found more that is damaged.
    warnings = list(dict.fromkeys((*loaded.warnings, *waiting.warnings)))
    if newer is None:
        return loaded._replace(warnings=warnings)
    return Loaded(newer, "spool", [*warnings, waiting.tell_aside(newer)], loaded.earlier, loaded.past)


def rescue(waiting: SpooledRun, error: HoldfastError) -> Loaded:
    """Return the newest set-aside checkpoint, where nothing else is left; without one, raise `error`."""
    newest = waiting.newest_aside(0)
    if newest is None:
        raise error
    return Loaded(newest, "spool", [*waiting.warnings, str(error), waiting.tell_aside(newest)])

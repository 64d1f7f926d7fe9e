"""What the signature of each checkpoint of a run is worth."""

from holdfast.errors import IntegrityFailure, KeyMissing
from holdfast.repository.stored_run import StoredRun
from holdfast.security.signatures import Forged, Unsigned


def mark_signatures(run: StoredRun) -> dict[str, str]:
    """Return what the signature of each checkpoint of the index is worth: valid, missing or forged."""
    run.fetch_all()
    marks: dict[str, str] = {}
    for candidate in run.candidates():
        if candidate.entry is None:
            continue
        mark = "valid"
        try:
            run.open(candidate)
        except Unsigned:
            mark = "missing"
        except Forged:
            mark = "forged"
        except KeyMissing:
            pass  # signed, and sealed as well
        except IntegrityFailure:
            continue  # it is damaged: validate says how
        marks[candidate.entry.checkpoint_id] = mark
    return marks

"""Loading the driver of the shared queue, where it is asked for."""

from typing import TYPE_CHECKING

from holdfast.errors import InvalidSettings
from holdfast.extras import how_to_install

if TYPE_CHECKING:
    from holdfast.queue.postgres import Database


def load_database(url: str, *, is_embedded: bool) -> "Database":
    """Return the database at `url`; nothing is connected yet. Raises InvalidSettings with what to do."""
    if is_embedded:
        raise InvalidSettings(
            ["HOLDFAST_DATABASE_URL: set HOLDFAST_REPO, too: each machine has an embedded GitHub of its own"]
        )
    try:
        from holdfast.queue.postgres import Database
    except ImportError:
        advice = f"run {how_to_install('postgres')}"
        raise InvalidSettings([f"HOLDFAST_DATABASE_URL: its driver is not installed: {advice}"]) from None
    return Database(url)

"""How threads and what LangGraph saves of them are called: run ids, and phases that the run's index lists.

A phase is `<checkpoint id> <kind>`, and the namespace behind it where there is one, so that the index of a
run alone tells what is where.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from urllib.parse import quote, unquote

from holdfast.errors import InvalidCheckpoint
from holdfast.format.ids import parse_run_id

_MOST_ID_CHARACTERS = 100
_MOST_NAMESPACE_CHARACTERS = 130
_ENCODED = "langgraph-thread-"
_DIGEST = "#"
_NO_ID = "-"


class Kind(StrEnum):
    """What a record is: a checkpoint, writes that wait for the next one, or what was deleted."""

    CHECKPOINT = "checkpoint"
    WRITES = "writes"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Place:
    """One checkpoint of a thread: its namespace as phases spell it, and its id."""

    namespace: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class RecordName:
    """What a phase says."""

    kind: Kind
    place: Place


def run_of_thread(thread_id: str) -> str:
    """Return the run that a thread is: of the same name, or of a digest where no run can be called that.

    >>> run_of_thread("chat-7"), run_of_thread("kim@example.org")
    ('chat-7', 'langgraph-thread-1b8d24966640ed8bce3bc38740387ac2')
    """
    try:
        if not thread_id.startswith(_ENCODED):
            return parse_run_id(thread_id)
    except ValueError:
        pass
    return _ENCODED + sha256(thread_id.encode(errors="surrogatepass")).hexdigest()[:32]


def name_place(namespace: str, checkpoint_id: str) -> Place:
    """Return how phases spell a checkpoint; a long namespace is spelled as a digest of it.

    Raises InvalidCheckpoint if the id is empty or too long.
    """
    if not checkpoint_id or len(quote(checkpoint_id, safe="")) > _MOST_ID_CHARACTERS:
        raise InvalidCheckpoint("checkpoint_id", f"use 1 to {_MOST_ID_CHARACTERS} characters")
    return Place(spell_namespace(namespace), checkpoint_id)


def spell_namespace(namespace: str) -> str:
    """Return a namespace as phases spell it.

    >>> spell_namespace("outer:1|inner stage:2")
    'outer:1|inner%20stage:2'
    """
    spelled = quote(namespace, safe=":|,/")
    if len(spelled) <= _MOST_NAMESPACE_CHARACTERS:
        return spelled
    return _DIGEST + sha256(namespace.encode()).hexdigest()


def format_phase(kind: Kind, place: Place | None = None) -> str:
    """Return the phase of a record.

    >>> format_phase(Kind.WRITES, Place("child:1", "1ef4")), format_phase(Kind.DELETED)
    ('1ef4 writes child:1', '- deleted')
    """
    if place is None:
        return f"{_NO_ID} {kind}"
    return f"{quote(place.checkpoint_id, safe='')} {kind} {place.namespace}".rstrip()


def parse_phase(phase: str) -> RecordName | None:
    """Return what a phase says; None if it is not one of these.

    >>> parse_phase("1ef4 checkpoint").place
    Place(namespace='', checkpoint_id='1ef4')
    """
    words = phase.split(" ")
    if len(words) not in (2, 3) or words[1] not in set(Kind):
        return None
    namespace = words[2] if len(words) == 3 else ""
    return RecordName(Kind(words[1]), Place(namespace, unquote(words[0])))

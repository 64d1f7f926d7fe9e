"""What came of a step: its outputs, what people read of it, and how it ends."""

from dataclasses import dataclass, field

from holdfast.presentation.exits import ExitCode


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is in the repository, so that people can follow a link to it."""

    path: str


Cell = str | StoredFile


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their columns; empty by default."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The end of one command.

    `facts` are sentences for the summary; `problems` are warnings of the job, or errors if it is to fail.
    """

    title: str
    outputs: dict[str, str] = field(default_factory=dict)
    table: Table = field(default_factory=Table)
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    code: ExitCode = ExitCode.DONE

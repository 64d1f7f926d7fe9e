"""What came of a step: its outputs, what people read of it, and how it ends."""

from dataclasses import dataclass, field

from holdfast.cli.exits import ExitCode


@dataclass(frozen=True, slots=True)
class Row:
    """One checkpoint in the summary's table."""

    run_id: str
    sequence: str
    trigger: str
    phase: str
    status: str
    file_path: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one command.

    `facts` are sentences for the summary; `problems` are warnings of the job, or errors if it is to fail.
    """

    title: str
    outputs: dict[str, str] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    code: ExitCode = ExitCode.DONE

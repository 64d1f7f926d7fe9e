"""`holdfast stats`: how much is saved, how often, how large it is, and how long its way takes."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen, format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from holdfast.stats.figures import Statistics

_DESCRIPTION = """\
Show statistics of a run, or of all: checkpoints by trigger and status, sizes, the time from the save to the
verified commit, saves an hour, resumes, what batches and parts save, what is stored, and the cost.

Sizes and the time to the verified commit are those of checkpoints that were saved on this machine. What
cannot be known is named, with the reason."""

_BAR = 24
# The title, blanks and a number of six digits.
_BESIDE_A_BAR = 26
_SPARKS = "▁▂▃▄▅▆▇█"
_NOT_KNOWN = "not known"


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "stats", run, operands="[RUN]", description=_DESCRIPTION, example="holdfast stats build-42"
    )
    parser.add_argument("run_id", nargs="?", metavar="RUN", help="the run; all of them unless one is named")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print the figures."""
    from holdfast.presentation.documents import stats_document

    with open_session(arguments) as session:
        stats = session.holdfast.stats(arguments.run_id)
    if screen.is_json:
        screen.document(stats_document(stats))
        return ExitCode.DONE
    screen.facts(list(_facts(stats)))
    for sentence in stats.unknown:
        screen.say(f"not known: {sentence}")
    return ExitCode.DONE


def _facts(stats: "Statistics") -> Iterator[tuple[str, str]]:
    counts = stats.checkpoints
    if stats.run_id is None:
        yield "runs", f"{stats.runs:,}"
    yield "checkpoints", f"{counts.total:,} ({_list(counts.by_progress)})" if counts.total else "none"
    yield from _bars("by trigger", counts.by_trigger)
    yield from _bars("by status", counts.by_status)
    yield "sizes", _sizes(stats)
    yield "verified after", _way(stats)
    yield "saves", _rate(stats)
    yield "resumes", _resumes(stats)
    yield "batches", _batches(stats)
    yield "parts", _parts(stats)
    yield "stored", _stored(stats)
    yield "cost", _NOT_KNOWN if stats.cost is None else f"${stats.cost}"


def _bars(title: str, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield a bar for each name, as long as its share of the longest."""
    most, width = max(counts.values(), default=0), max(map(len, counts), default=0)
    longest = max(1, min(_BAR, get_terminal_size().columns - width - _BESIDE_A_BAR))
    for name, number in counts.items():
        bar = "█" * max(1, round(number / most * longest))
        yield title, f"{name:<{width}}  {bar} {number:,}"
        title = ""


def draw_sparkline(numbers: Sequence[int]) -> str:
    """Return numbers as a line of small bars; nothing is a space.

    >>> draw_sparkline([0, 1, 4, 8])
    ' ▁▄█'
    """
    most = max(numbers, default=0)
    if not most:
        return ""
    return "".join(_SPARKS[(number * len(_SPARKS) - 1) // most] if number else " " for number in numbers)


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def _sizes(stats: "Statistics") -> str:
    sizes = stats.sizes
    if sizes.median_bytes is None or sizes.largest_bytes is None:
        return _NOT_KNOWN
    growth = "" if sizes.growth is None else f", the last are {sizes.growth:g} times the first"
    middle, most = format_bytes(sizes.median_bytes), format_bytes(sizes.largest_bytes)
    return f"median {middle}, largest {most}{growth} (of {sizes.counted:,} {sizes.basis})"


def _way(stats: "Statistics") -> str:
    way = stats.verified_after
    if way.median_s is None or way.p95_s is None or way.longest_s is None:
        return _NOT_KNOWN
    median, p95, longest = map(format_duration, (way.median_s, way.p95_s, way.longest_s))
    return f"median {median}, 95 % within {p95}, longest {longest} (of {way.counted:,} saved here)"


def _rate(stats: "Statistics") -> str:
    rate = stats.rate
    if rate.first is None:
        return "none"
    if rate.per_hour is None or rate.slice_s is None:
        return f"at {rate.first}"
    sparks = draw_sparkline(rate.slices)
    each = format_duration(rate.slice_s)
    return f"{sparks}  {rate.per_hour:,.1f} an hour, {rate.first} to {rate.last}, {each} each"


def _resumes(stats: "Statistics") -> str:
    resumes = stats.resumes
    since = f" since {resumes.since}" if resumes.since else ""
    return f"{format_count(resumes.counted, 'plan')} asked for on this machine{since}"


def _batches(stats: "Statistics") -> str:
    savings = stats.savings
    if not savings.batches:
        return "none"
    files = format_count(savings.batches, "file")
    return f"{format_count(savings.batched_checkpoints)} in {files}: {savings.writes_saved:,} writes saved"


def _parts(stats: "Statistics") -> str:
    savings = stats.savings
    if savings.parts is None or savings.part_bytes is None:
        return _NOT_KNOWN
    held = f"{format_count(savings.parts, 'part')}, {format_bytes(savings.part_bytes)}"
    if savings.bytes_saved is None:
        return held
    return f"{held}; {format_bytes(max(0, savings.bytes_saved))} less stored than saved"


def _stored(stats: "Statistics") -> str:
    stored = stats.stored
    sizes = [
        *([] if stored.files is None else [format_count(stored.files, "file")]),
        *([] if stored.bytes is None else [format_bytes(stored.bytes)]),
        *([] if stored.commits is None else [format_count(stored.commits, "commit")]),
    ]
    return ", ".join(sizes) or _NOT_KNOWN

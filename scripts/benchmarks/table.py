"""Shows a report in the terminal."""

from rich.console import Console
from rich.table import Table

from benchmarks.report import Bar, Figure, Report, unique


def show_machine(console: Console, machine: dict[str, str]) -> None:
    """Print what was measured on."""
    table = Table(title="The machine", show_header=False, title_justify="left")
    for name, value in machine.items():
        table.add_row(name, value)
    console.print(table)


def show_section(console: Console, title: str, part: Report) -> None:
    """Print one table for each work of a section: who, and what was measured of them."""
    console.rule(title, align="left")
    for work in unique(figure.work for figure in part.figures):
        figures = [figure for figure in part.figures if figure.work == work]
        columns = unique(figure.name for figure in figures)
        table = Table(title=work, title_justify="left")
        table.add_column("")
        for column in columns:
            table.add_column(column, justify="right")
        for name in unique(figure.contestant for figure in figures):
            own = {figure.name: figure for figure in figures if figure.contestant == name}
            cells = [format_figure(own[column]) if column in own else "" for column in columns]
            table.add_row(name, *cells, style="bold" if name.lower().startswith("holdfast") else "")
        console.print(table)


def show_bars(console: Console, bars: list[Bar]) -> None:
    """Print every bar and whether it is cleared."""
    if not bars:
        return
    table = Table(title="Bars", title_justify="left")
    for heading in ("", "measured", "bar"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_column("")
    for bar in bars:
        verdict = "[green]cleared[/]" if bar.is_cleared else "[bold red]MISSED[/]"
        table.add_row(bar.promise, format_measured(bar), format_limit(bar), verdict)
    console.print(table)


def format_measured(bar: Bar) -> str:
    """Return what was measured of a bar.

    >>> format_measured(Bar("s", "p", 1.0, 1.5, "times"))
    '1.00 times'
    """
    return f"{format_number(bar.measured)} {bar.unit}".strip()


def format_limit(bar: Bar) -> str:
    """Return what a bar asks for.

    >>> format_limit(Bar("s", "p", 1.0, 1.5, "times"))
    'at most 1.50 times'
    """
    return f"{'at least' if bar.is_minimum else 'at most'} {format_number(bar.limit)} {bar.unit}".strip()


def format_figure(figure: Figure) -> str:
    """Return the number with its spread and its ratio to the baseline.

    >>> format_figure(Figure("s", "w", "c", "median", 4.2, "ms", ratio=1.5, low=4.0, high=5.0))
    '4.20 ms [4.00 to 5.00] x 1.50'
    """
    parts = [f"{format_number(figure.value)} {figure.unit}".strip()]
    if figure.low is not None and figure.high is not None:
        parts.append(f"[{format_number(figure.low)} to {format_number(figure.high)}]")
    if figure.ratio is not None:
        parts.append(f"x {format_number(figure.ratio)}")
    return " ".join(parts)


def format_number(value: float) -> str:
    """Return three digits that matter.

    >>> [format_number(value) for value in (10_000, 123.4, 12.34, 1.234, 0.01234)]
    ['10,000', '123', '12.3', '1.23', '0.0123']
    """
    if value == 0:
        return "0"
    for least, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.4f}"

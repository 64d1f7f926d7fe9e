"""Reading a step's outputs as the runner does."""

from collections.abc import Iterator


def parse_outputs(text: str) -> dict[str, str]:
    """Return the outputs that a file holds."""
    return dict(_parse(iter(text.split("\n"))))


def _parse(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, delimiter = line.partition("<<")
        value: list[str] = []
        while delimiter and (each := next(lines)) != delimiter:
            value.append(each)
        if name:
            yield name, "\n".join(value)

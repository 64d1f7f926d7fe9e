"""Loads a sidecar, attacks it, or lets it work for long. Called by scripts/sidecar-load."""

import argparse
import sys
import tempfile
from pathlib import Path

from sidecar_hostile import play_hostile
from sidecar_load import measure
from sidecar_pages import measure_pages
from sidecar_soak import CHECKPOINTS_PER_RUN, soak


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="scripts/sidecar-load")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, help="default: 30, or 300 for --soak")
    parser.add_argument("--write-mode", choices=("contents", "commit"), default="contents")
    parser.add_argument("--soak", action="store_true", help="see whether memory, files and threads stay flat")
    parser.add_argument("--rate", type=float, help="saves a second in --soak; default: as many as drain")
    parser.add_argument(
        "--per-run", type=int, default=CHECKPOINTS_PER_RUN, help="checkpoints of each run in --soak"
    )
    parser.add_argument("--picture", type=Path, help="where --soak draws an SVG")
    parser.add_argument(
        "--hostile", action="store_true", help="hanging GitHub, trailers, slow bodies, many parts"
    )
    parser.add_argument("--pages", action="store_true", help="the dashboard: time and weight of its pages")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-load-") as name:
        if arguments.hostile:
            return play_hostile(Path(name))
        if arguments.pages:
            return measure_pages(Path(name))
        if arguments.soak:
            seconds = arguments.seconds or 300.0
            return soak(
                Path(name),
                seconds,
                arguments.write_mode,
                rate=arguments.rate,
                per_run=arguments.per_run,
                picture=arguments.picture,
            )
        return measure(Path(name), arguments.clients, arguments.seconds or 30.0, arguments.write_mode)


if __name__ == "__main__":
    sys.exit(main())

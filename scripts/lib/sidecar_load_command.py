"""Loads a sidecar, or lets it work for days in minutes. Called by scripts/sidecar-load."""

import argparse
import sys
import tempfile
from pathlib import Path

from sidecar_hostile import play_hostile
from sidecar_load import measure
from sidecar_soak import soak


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="scripts/sidecar-load")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, help="default: 30, or 300 for --soak")
    parser.add_argument("--write-mode", choices=("contents", "commit"), default="contents")
    parser.add_argument("--soak", action="store_true", help="see whether memory and open files stay flat")
    parser.add_argument(
        "--hostile", action="store_true", help="hanging GitHub, trailers, slow bodies, many parts"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-load-") as name:
        if arguments.hostile:
            return play_hostile(Path(name))
        if arguments.soak:
            return soak(Path(name), arguments.seconds or 300.0, arguments.write_mode)
        return measure(Path(name), arguments.clients, arguments.seconds or 30.0, arguments.write_mode)


if __name__ == "__main__":
    sys.exit(main())

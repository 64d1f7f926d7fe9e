"""`man holdfast` is made from the parsers, and is up to date."""

import shutil
import subprocess

import pytest
from man_page import PAGE, format_page

from holdfast.cli import build_parser


def test_the_page_is_what_the_parsers_say() -> None:
    written = PAGE.read_text(encoding="utf-8")

    assert written == format_page(build_parser()), "run .venv/bin/python scripts/lib/man_page.py"


@pytest.mark.skipif(not shutil.which("groff"), reason="there is no groff here")
def test_man_takes_the_page() -> None:
    ended = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", str(PAGE)], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "holdfast spool restore" in ended.stdout

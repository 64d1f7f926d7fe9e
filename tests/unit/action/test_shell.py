"""The shell of the action and of the scripts runs on a macOS runner: bash 3.2, and the tools of BSD."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[3]
SHEBANG = b"#!/usr/bin/env bash"

# What bash has only since version 4, and options that only GNU's tools have.
FOREIGN = {
    "bash 4": r"\b(mapfile|readarray|coproc)\b"
    r"|\b(declare|local|typeset) -[a-zA-Z]*[AnglU]|\bwait -n\b|&>>|\|&"
    r"|\$\{[A-Za-z_]+(\^|,)|\$\{[A-Za-z_]+@[A-Za-z]\}|\bBASHPID\b|\bEPOCH(SECONDS|REALTIME)\b|;;&",
    "GNU readlink": r"\breadlink -f\b|\brealpath\b",
    "GNU sed": r"\bsed (-[A-Za-z]+ )*-i\b|\bsed -r\b",
    "GNU date": r"\bdate (-d|--date|-I)|\bdate \+\S*%N",
    "GNU stat": r"\bstat (-c|--format)",
    "GNU coreutils": r"\b(timeout|flock|setsid|nproc|sha256sum|md5sum|tac|shuf) "
    r"|\bsort -V\b|\bcp -[A-Za-z]*a\b",
    "GNU grep and xargs": r"\bgrep -[A-Za-z]*P|\bxargs -[A-Za-z]*[rd]\b",
    "GNU mktemp": r"\bmktemp --|\bmktemp .*-p\b",
}


def shell_files() -> list[Path]:
    files = (path for path in (ROOT / "scripts").rglob("*") if path.is_file() and path.suffix in ("", ".sh"))
    return sorted(
        path for path in files if path.suffix or path.read_bytes().startswith(b"#!/usr/bin/env bash")
    )


def shell_steps() -> dict[str, str]:
    """Return what action.yml and the workflows run in a shell, by where it stands."""
    found = {}
    for path in [ROOT / "action.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]:
        document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        parts = [document["runs"]] if "runs" in document else document["jobs"].values()
        steps = [step for part in parts for step in part.get("steps", []) if "run" in step]
        found.update({f"{path.name} {number}": step["run"] for number, step in enumerate(steps)})
    return found


TEXTS = {path.name: path.read_text(encoding="utf-8") for path in shell_files()} | shell_steps()


def test_the_scripts_are_found() -> None:
    assert {"action", "setup", "test", "python.sh", "action.yml 0"} <= set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_nothing_is_used_that_macos_lacks(name: str, kind: str) -> None:
    code = re.sub(r"(?m)(^|\s)#.*$", "", TEXTS[name])

    assert not re.findall(FOREIGN[kind], code)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("bash 4", "mapfile -t lines"),
        ("bash 4", "declare -A table"),
        ("bash 4", 'echo "${name,,}"'),
        ("GNU readlink", 'readlink -f "$0"'),
        ("GNU sed", "sed -i s/a/b/ file"),
        ("GNU date", "date +%s%N"),
        ("GNU coreutils", "timeout 5 true"),
    ],
)
def test_what_macos_lacks_is_noticed(kind: str, line: str) -> None:
    assert re.search(FOREIGN[kind], line)


@pytest.mark.parametrize("name", TEXTS)
def test_an_array_that_may_be_empty_is_not_expanded(name: str) -> None:
    """bash 3.2 takes an empty array for an unset variable, which ends a script that has set -u."""
    empty = set(re.findall(r"(?m)^\s*(?:local )?([a-z_]+)=\(\)", TEXTS[name]))
    expanded = {each for each in empty if re.search(rf'(?<!\+)"\$\{{{each}\[@\]\}}"', TEXTS[name])}

    assert not expanded


@pytest.mark.parametrize("path", shell_files(), ids=lambda path: path.name)
def test_the_shell_can_read_it(path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "--posix", "-n", str(path)], check=True)

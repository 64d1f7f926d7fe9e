"""Whatever is installed by hash has the digests of all files of its release, and names no place."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
FILES = ("hashes.txt", "requirements.txt", "action-requirements.txt")


def read_hashed(name: str) -> dict[str, list[str]]:
    """Return the digests of each pin; raises AssertionError for any line that is neither."""
    found: dict[str, list[str]] = {}
    for line in (SCRIPTS / name).read_text(encoding="utf-8").splitlines()[1:]:
        digest = re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})( \\)?", line)
        if digest:
            found[list(found)[-1]].append(digest[1])
        else:
            assert re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]* \\", line), line
            found[line.removesuffix(" \\")] = []
    return found


def read_constraints() -> set[str]:
    lines = (SCRIPTS / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if not line.startswith("#")}


@pytest.mark.parametrize("name", FILES)
def test_every_version_has_hashes_and_is_one_that_was_tested(name: str) -> None:
    hashed = read_hashed(name)

    assert all(hashed.values())
    assert hashed.keys() <= read_constraints(), "run scripts/pin --hashes"


def test_all_versions_that_were_tested_have_hashes() -> None:
    assert read_hashed("hashes.txt").keys() == read_constraints(), "run scripts/pin --hashes"


@pytest.mark.parametrize("name", FILES)
def test_compiled_packages_have_the_hashes_of_wheels_for_more_than_this_machine(name: str) -> None:
    hashed = read_hashed(name)

    (orjson,) = (digests for pin, digests in hashed.items() if pin.startswith("orjson=="))
    assert len(orjson) > 20


def test_the_image_the_action_and_the_setup_install_by_hash_alone() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    action = (SCRIPTS / "lib" / "action_environment.py").read_text(encoding="utf-8")
    setup = (SCRIPTS / "lib" / "environment.py").read_text(encoding="utf-8")

    assert "--no-deps --require-hashes --requirement scripts/requirements.txt" in image
    assert "--no-deps --no-build-isolation ." in image
    assert '"--require-hashes"' in action
    assert '"--require-hashes", "--requirement", str(HASHES)' in setup


def test_everything_that_is_pinned_is_watched() -> None:
    watching = YAML(typ="safe").load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))

    watched = {
        (each["package-ecosystem"], folder)
        for each in watching["updates"]
        for folder in each.get("directories", [each.get("directory")])
    }
    assert watched == {("github-actions", "/"), ("pip", "/"), ("pip", "/scripts"), ("docker", "/")}


def test_pip_refuses_a_file_whose_hash_is_another_one(tmp_path: Path) -> None:
    (pin,) = (pin for pin in read_hashed("requirements.txt") if pin.startswith("idna=="))
    wrong = tmp_path / "requirements.txt"
    wrong.write_text(f"{pin} --hash=sha256:{'0' * 64}\n")
    wheel = tmp_path / f"idna-{pin.partition('==')[2]}-py3-none-any.whl"
    shutil.make_archive(str(wheel.with_suffix("")), "zip", tmp_path, base_dir=wrong.name)
    wheel.with_suffix(".zip").rename(wheel)
    command = [sys.executable, "-m", "pip", "download", "--no-index", "--find-links", str(tmp_path)]

    answer = subprocess.run(
        [*command, "--require-hashes", "--dest", str(tmp_path / "got"), "--requirement", str(wrong)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert answer.returncode != 0
    assert "DO NOT MATCH THE HASHES" in answer.stderr

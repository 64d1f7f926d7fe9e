"""The wheel is whole, and works in an environment that held nothing before."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import holdfast
from tests.docs.pages import page

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
SOURCES = ROOT / "src"

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]


def run(*command: str | Path) -> str:
    """Return what the command printed; a failure shows all that it said."""
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=500
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def run_pip(environment: Path, *arguments: str | Path) -> str:
    """Let the pip of this Python work on an environment that has none of its own."""
    return run(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", *arguments)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def user_environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    environment = tmp_path_factory.mktemp("user environment")
    venv.create(environment, symlinks=True, with_pip=False)
    # Compiling all of githubkit's models would take longer than all the rest.
    run_pip(environment, "install", "--quiet", "--no-compile", "--constraint", CONSTRAINTS, wheel)
    return environment


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    files = {
        path.as_posix()
        for path in (file.relative_to(SOURCES) for file in SOURCES.rglob("*") if file.is_file())
        if not any(part == "__pycache__" or part.startswith(".") for part in path.parts)
    }

    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())

    assert "holdfast/py.typed" in files
    assert files - packed == set()


def test_a_fresh_installation_imports_the_package_and_its_github_client(user_environment: Path) -> None:
    program = "import holdfast, githubkit; githubkit.GitHub(); print(holdfast.__version__, holdfast.__file__)"

    version, place = run(user_environment / "bin" / "python", "-I", "-c", program).strip().split(" ", 1)

    assert version == holdfast.__version__
    assert Path(place).is_relative_to(user_environment)
    assert Path(place).with_name("py.typed").is_file()


def test_the_readme_says_how_to_install_it(tmp_path: Path) -> None:
    (block,) = [block for block in page("README.md").blocks if "git clone" in block.text]
    clone = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{ROOT}.insteadOf"}
    clone["GIT_CONFIG_VALUE_0"] = "https://github.com/OWNER/holdfast"
    ended = subprocess.run(
        ["bash", "-e", "-c", f"{block.text}\nholdfast --version"],
        cwd=tmp_path,
        env={**os.environ, **clone},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )

    assert ended.returncode == 0, ended.stderr
    assert holdfast.__version__ in ended.stdout


def test_the_command_tells_the_version_of_the_package(user_environment: Path) -> None:
    assert holdfast.__version__ in run(user_environment / "bin" / "holdfast", "--version")


def test_the_command_explains_itself(user_environment: Path) -> None:
    assert "demo" in run(user_environment / "bin" / "holdfast", "--help")


def test_nothing_unpinned_is_installed(user_environment: Path) -> None:
    pinned = set(CONSTRAINTS.read_text(encoding="utf-8").splitlines())
    listing = run_pip(user_environment, "list", "--format=json")

    installed = {f"{canonicalize_name(each['name'])}=={each['version']}" for each in json.loads(listing)}

    assert installed - pinned == {f"holdfast=={holdfast.__version__}"}

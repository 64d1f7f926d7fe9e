"""A GitHub App instead of a token, from the settings to the repository."""

from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.app import APP_ID, key_pair, registration


def contents_of(folder: Path) -> bytes:
    """Return all that is in the files of a folder, and their names."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return b"\n".join(path.name.encode() + b"\n" + path.read_bytes() for path in files)


def test_checkpoints_reach_the_repository_with_tokens_that_are_in_memory_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo="acme/state", app=registration()))
    with EmulatorServer(emulator) as server:
        settings = Settings.from_environment(
            {
                "HOLDFAST_REPO": "acme/state",
                "HOLDFAST_API_URL": server.url,
                "HOLDFAST_APP_ID": str(APP_ID),
                "HOLDFAST_APP_PRIVATE_KEY": key_pair()[0].replace("\n", "\\n"),
                "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
                "HOLDFAST_WRITE_INTERVAL_S": "0",
            }
        )
        assembly = Assembly(settings)
        with Holdfast(settings, assembly=assembly) as holdfast:
            receipt = holdfast.save("build-1", {"answer": 42})
            holdfast.drain()
            stored = holdfast.receipt(receipt.checkpoint_id)
            plan = holdfast.resume("build-1")
            (token,) = (each for each in assembly.secrets() if each.startswith("ghs_"))
            written = [contents_of(tmp_path / "data")]
        written.append(contents_of(tmp_path / "data"))

    assert stored is not None
    assert stored.status is Progress.VERIFIED
    assert plan.state == {"answer": 42}
    assert key_pair()[0] not in repr(settings)
    said = capfd.readouterr()
    for content in (*written, f"{said.out}{said.err}".encode()):
        assert not any(secret.encode() in content for secret in (token, key_pair()[0], "PRIVATE KEY"))
    assert all(receipt.checkpoint_id.encode() in content for content in written)
    emulator.close()

"""A GitHub App instead of a token, from the settings to the repository."""

from pathlib import Path

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.app import APP_ID, key_pair, registration


def test_checkpoints_reach_the_repository_with_the_tokens_of_an_installation(tmp_path: Path) -> None:
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
        with Holdfast(settings) as holdfast:
            receipt = holdfast.save("build-1", {"answer": 42})
            holdfast.drain()
            stored = holdfast.receipt(receipt.checkpoint_id)
            plan = holdfast.resume("build-1")

    assert stored is not None
    assert stored.status is Progress.VERIFIED
    assert plan.state == {"answer": 42}
    assert key_pair()[0] not in repr(settings)
    emulator.close()

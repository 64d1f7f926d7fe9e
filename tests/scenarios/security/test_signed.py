"""Who can write to the repository cannot make a run go on from a state of their own."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.errors import IntegrityFailure
from holdfast.security import jose
from holdfast.settings import Settings

PAIR, OTHER, SEAL = jose.make_signing_key(), jose.make_signing_key(), jose.make_shared_key()
BOTH_MODES = pytest.mark.parametrize("mode", ["contents", "commit"])


@contextmanager
def opened(folder: Path, key: dict[str, str] | None = None, **variables: str) -> Iterator[Holdfast]:
    environment = {"HOLDFAST_DATA_DIR": str(folder), **variables}
    if key:
        environment["HOLDFAST_SIGNING_KEY"] = json.dumps(key)
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        yield holdfast


def save(holdfast: Holdfast, number: int) -> None:
    holdfast.save("r", {"n": number})
    assert holdfast.drain().verified == 1


@BOTH_MODES
@pytest.mark.parametrize("intruder", [None, OTHER])
def test_checkpoint_of_someone_else_is_never_resumed_from(
    tmp_path: Path, mode: str, intruder: dict[str, str] | None
) -> None:
    with opened(tmp_path, PAIR, HOLDFAST_WRITE_MODE=mode) as holdfast:
        save(holdfast, 1)
    with opened(tmp_path, intruder, HOLDFAST_WRITE_MODE=mode) as holdfast:
        save(holdfast, 2)
        assert holdfast.resume("r").state == {"n": 2} if intruder is None else True
    for key in (PAIR, jose.public_half(PAIR)):
        with opened(tmp_path, key, HOLDFAST_WRITE_MODE=mode) as holdfast:
            plan = holdfast.resume("r")
            assert plan.state == {"n": 1}
            assert any("signed" in warning for warning in plan.warnings)
            with pytest.raises(IntegrityFailure, match="signed"):
                holdfast.resume("r", at=2)
            assert any("signed" in finding.reason for finding in holdfast.validate("r").findings)
            marks = [
                holdfast.signatures("r")[entry.checkpoint_id] for entry in holdfast.checkpoints("r").entries
            ]
            assert marks == ["valid", "missing" if intruder is None else "forged"]
    with opened(tmp_path, PAIR, HOLDFAST_ALLOW_UNSIGNED="true") as holdfast:
        save(holdfast, 3)
        assert holdfast.resume("r").state == {"n": 3}
        if intruder is None:
            assert holdfast.resume("r", at=2).state == {"n": 2}
        else:
            with pytest.raises(IntegrityFailure):
                holdfast.resume("r", at=2)


@BOTH_MODES
def test_sealed_large_and_batched_checkpoints_are_signed_too(tmp_path: Path, mode: str) -> None:
    variables = {"HOLDFAST_ENCRYPTION_KEY": json.dumps(SEAL), "HOLDFAST_WRITE_MODE": mode}
    variables |= {"HOLDFAST_MAX_CHECKPOINT_BYTES": "65536"}
    with opened(tmp_path, PAIR, **variables) as holdfast:
        for number in range(4):
            holdfast.save(
                "r", {"n": number, "text": f"{number}" * 10, "large": [number * i for i in range(60_000)]}
            )
        assert holdfast.drain().verified == 4
        assert holdfast.resume("r").state["n"] == 3
        assert set(holdfast.signatures("r").values()) == {"valid"}
        assert holdfast.validate("r").findings == []
    with opened(tmp_path, PAIR, HOLDFAST_WRITE_MODE=mode) as holdfast:
        assert set(holdfast.signatures("r").values()) == {"valid"}


def test_nothing_is_listed_where_no_key_is_set(tmp_path: Path) -> None:
    with opened(tmp_path) as holdfast:
        save(holdfast, 1)
        assert holdfast.signatures("r") == {}

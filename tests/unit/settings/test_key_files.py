"""Keys from settings and files."""

import json
import stat
from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.security.jose import make_shared_key
from holdfast.settings import Settings
from holdfast.settings.key_files import load_keys, read_local_secret
from holdfast.settings.kinds import Secret

ONE, TWO = make_shared_key(), make_shared_key()


def test_keys_of_the_file_come_first(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{json.dumps(ONE)}\n")
    given = Secret(json.dumps([TWO, ONE]))
    assert [key.kid for key in load_keys("encryption", given, file)] == [ONE["kid"], TWO["kid"]]
    assert load_keys("encryption", None, None) == ()


def test_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"HOLDFAST_ENCRYPTION_KEY_FILE: .*No such file"):
        load_keys("encryption", None, tmp_path / "none")
    (tmp_path / "bad").write_text("hunter2")
    with pytest.raises(InvalidSettings, match="not a JSON Web Key"):
        load_keys("encryption", None, tmp_path / "bad")


def test_file_without_end_is_refused_and_not_read_to_its_end() -> None:
    with pytest.raises(InvalidSettings, match="SIGNING_KEY_FILE: /dev/zero: it is too large for keys"):
        load_keys("signing", None, Path("/dev/zero"))


def test_local_secret_stays_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    secret = read_local_secret(tmp_path / "data")
    assert len(secret) == 32
    assert read_local_secret(tmp_path / "data") == secret
    (file,) = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_wrong_key_is_refused_without_saying_it_and_states_are_not_redacted_when_sealed() -> None:
    with pytest.raises(InvalidSettings, match="HOLDFAST_ENCRYPTION_KEY: it is not a JSON Web Key") as refusal:
        Settings.from_environment({"HOLDFAST_ENCRYPTION_KEY": "hunter2"})
    assert "hunter2" not in str(refusal.value)
    sealed = Settings.from_environment({"HOLDFAST_ENCRYPTION_KEY": json.dumps(ONE)})
    assert sealed.redact == "off"
    assert ONE["k"] not in repr(sealed)
    both = {"HOLDFAST_ENCRYPTION_KEY": json.dumps(ONE), "HOLDFAST_REDACT": "strict"}
    assert Settings.from_environment(both).redact == "strict"
    assert Settings.from_environment({}).redact == "known"

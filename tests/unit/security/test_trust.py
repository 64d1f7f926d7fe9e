"""What a reader trusts."""

import pytest

from holdfast.errors import KeyMissing
from holdfast.format.checkpoint import stamp
from holdfast.security.sealing import Keyring
from holdfast.security.trust import Trust
from tests.unit.security.test_sealing import RING, draft


def test_state_is_opened_or_the_key_is_asked_for() -> None:
    stored = stamp(RING.seal(draft({"a": 1})).body(1))
    assert b'"a":1' in Trust(RING).open(stored, "path").content
    with pytest.raises(KeyMissing):
        Trust().open(stored, "path")


def test_who_is_lenient_leaves_it_sealed() -> None:
    stored = stamp(RING.seal(draft({"a": 1})).body(1))
    assert Trust(Keyring(), is_lenient=True).open(stored, "path") is stored

"""What was taken out is told to the one who resumes."""

from holdfast.styles.resume import tell_redacted
from tests.fakes.saved import stamped


def test_each_place_is_told_with_its_kind() -> None:
    places = [
        {"path": "/state_snapshot/a", "kind": "jwt"},
        {"path": "/context_fields/b", "kind": "npm-token"},
    ]
    assert tell_redacted(stamped({}, redacted=places)) == [
        "/state_snapshot/a: a credential (jwt) was taken out here; give it anew",
        "/context_fields/b: a credential (npm-token) was taken out here; give it anew",
    ]


def test_nothing_to_tell() -> None:
    assert tell_redacted(stamped({"a": "redacted"})) == []
    assert tell_redacted(stamped({}, redacted="a field of another program")) == []

import pytest

from holdfast.styles.review_signs import has_signs


@pytest.mark.parametrize(
    "state",
    [
        b'{"circuit_breaker_state":{"status":"open"}}',
        b'{"gate_history":[]}',
        b'{"progress":{"recovery_attempts":{"a":3}}}',
        b'{"progress":{"stepped_back_for":["a"]}}',
    ],
)
def test_a_state_that_may_make_its_run_wait_has_a_sign_of_it(state: bytes) -> None:
    assert has_signs(state)


def test_a_state_of_steps_alone_has_none() -> None:
    assert not has_signs(b'{"progress":{"style":"steps","completed_steps":[]}}')

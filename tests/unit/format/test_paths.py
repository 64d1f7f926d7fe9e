from holdfast.format.paths import (
    MAX_SEQUENCE,
    format_batch_name,
    format_checkpoint_name,
    is_single,
    parse_sequences,
)
from holdfast.format.triggers import Trigger


def test_names_have_room_for_the_largest_number_and_for_none_beyond() -> None:
    largest, beyond = (format_checkpoint_name(MAX_SEQUENCE + more, Trigger.MANUAL) for more in (0, 1))

    assert is_single(largest)
    assert parse_sequences(largest) == range(MAX_SEQUENCE, MAX_SEQUENCE + 1)
    assert parse_sequences(format_batch_name(1, MAX_SEQUENCE)) == range(1, MAX_SEQUENCE + 1)
    assert not parse_sequences(beyond)
    assert not parse_sequences(format_batch_name(1, MAX_SEQUENCE + 1))

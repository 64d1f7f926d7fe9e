from email.utils import formatdate

from holdfast.ratelimit.clock_skew import Timeline

NOW = 1_800_000_000.0
TWO_HOURS = 7200.0


def test_server_time_follows_the_date_header_whatever_the_local_clock_says() -> None:
    for skew in (-TWO_HOURS, TWO_HOURS):
        timeline = Timeline().at(NOW + skew).synchronised(formatdate(NOW, usegmt=True), NOW + skew)

        assert timeline.server_time(NOW + skew + 100) == NOW + 100


def test_date_within_its_own_precision_changes_nothing() -> None:
    timeline = Timeline().at(NOW)

    assert timeline.synchronised(formatdate(NOW - 1, usegmt=True), NOW) == timeline


def test_date_that_cannot_be_read_changes_nothing() -> None:
    timeline = Timeline().at(NOW)

    assert timeline.synchronised("", NOW) == timeline
    assert timeline.synchronised("yesterday", NOW) == timeline


def test_own_time_stands_still_at_a_jump_back_and_then_goes_on() -> None:
    timeline = Timeline().at(NOW)

    assert timeline.own_time(NOW - TWO_HOURS) == NOW
    after = timeline.at(NOW - TWO_HOURS)
    assert after.own_time(NOW - TWO_HOURS + 10) == NOW + 10


def test_threads_that_read_the_clock_in_any_order_are_no_jump() -> None:
    timeline = Timeline().at(NOW).at(NOW - 0.5)

    assert timeline.shift_s == 0.0
    assert timeline.own_time(NOW - 0.5) == NOW


def test_server_time_stays_right_after_a_jump_back() -> None:
    timeline = Timeline().at(NOW).synchronised(formatdate(NOW + 50, usegmt=True), NOW)

    assert timeline.at(NOW - TWO_HOURS).server_time(NOW - TWO_HOURS + 10) == NOW + 60

from email.utils import formatdate

from holdfast.ratelimit.clock_skew import ClockSkew

NOW = 1_800_000_000.0
TWO_HOURS = 7200.0


def test_server_time_follows_the_date_header_whatever_the_local_clock_says() -> None:
    for skew in (-TWO_HOURS, TWO_HOURS):
        skewed = ClockSkew().at(NOW + skew).synchronised(formatdate(NOW, usegmt=True), NOW + skew)

        assert skewed.server_time(NOW + skew + 100) == NOW + 100


def test_date_within_its_own_precision_changes_nothing() -> None:
    skewed = ClockSkew().at(NOW)

    assert skewed.synchronised(formatdate(NOW - 1, usegmt=True), NOW) == skewed


def test_date_that_cannot_be_read_changes_nothing() -> None:
    skewed = ClockSkew().at(NOW)

    assert skewed.synchronised("", NOW) == skewed
    assert skewed.synchronised("yesterday", NOW) == skewed


def test_steady_time_stands_still_at_a_jump_back_and_then_goes_on() -> None:
    skewed = ClockSkew().at(NOW)

    assert skewed.steady_time(NOW - TWO_HOURS) == NOW
    after = skewed.at(NOW - TWO_HOURS)
    assert after.steady_time(NOW - TWO_HOURS + 10) == NOW + 10


def test_threads_that_read_the_clock_in_any_order_are_no_jump() -> None:
    skewed = ClockSkew().at(NOW).at(NOW - 0.5)

    assert skewed.shift_s == 0.0
    assert skewed.steady_time(NOW - 0.5) == NOW


def test_server_time_stays_right_after_a_jump_back() -> None:
    skewed = ClockSkew().at(NOW).synchronised(formatdate(NOW + 50, usegmt=True), NOW)

    assert skewed.at(NOW - TWO_HOURS).server_time(NOW - TWO_HOURS + 10) == NOW + 60

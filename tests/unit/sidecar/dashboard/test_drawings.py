from holdfast.sidecar.dashboard.drawings import Gauge, draw_line, place_dots


def test_a_line_needs_two_moments() -> None:
    assert draw_line([]) is None
    assert draw_line([(1, 1)]) is None
    assert draw_line([(1, 1), (1, 2)]) is None


def test_a_line_goes_from_edge_to_edge_and_never_out_of_the_picture() -> None:
    line = draw_line([(0, 1), (5, 4), (10, 2)], most=2)

    assert line is not None
    assert line.points == "0.0,60.0 300.0,0.0 600.0,0.0"
    assert (line.highest, line.newest) == (4, 2)


def test_a_line_of_nothing_lies_on_the_ground() -> None:
    line = draw_line([(0, 0), (1, 0)])

    assert line is not None
    assert line.points == "0.0,120.0 600.0,120.0"


def test_a_gauge_is_low_below_a_tenth() -> None:
    assert Gauge("calls", 499, 5000).is_low
    assert not Gauge("calls", 500, 5000).is_low
    assert not Gauge("calls", 0, None).is_low


def test_dots_without_times_keep_their_order() -> None:
    assert place_dots([5.0, None, 7.0]) == [0.0, 500.0, 1000.0]
    assert place_dots([5.0]) == [0.0]

import threading

from holdfast.github.wrappers.right_of_way import RightOfWay

LONGEST_S = 30.0


def test_writer_waits_for_who_has_taken_the_way_and_no_longer_than_told() -> None:
    way = RightOfWay(longest_s=0.0)

    with way.take(), way.use():
        assert way.is_taken

    assert not way.is_taken


def test_what_is_being_written_comes_to_its_end_first() -> None:
    way, order = RightOfWay(LONGEST_S), list[str]()
    is_writing = threading.Event()

    def write() -> None:
        with way.use():
            is_writing.set()
            while not way.is_taken:
                pass
            order.append("written")

    writer = threading.Thread(target=write)
    writer.start()
    assert is_writing.wait(LONGEST_S)
    with way.take():
        order.append("taken")
    writer.join(LONGEST_S)

    assert order == ["written", "taken"]

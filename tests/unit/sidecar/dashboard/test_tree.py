import pytest

from holdfast.sidecar.dashboard.tree import MOST_CHILDREN, build_tree, find, parse, read_pointer, write


def test_a_tree_has_every_member_with_its_place_and_exact_numbers() -> None:
    root = build_tree(parse(b'{"a/b": [1.10, true, null], "c": "text"}'))

    (first, second) = root.children
    assert (first.name, first.pointer, first.kind, first.size) == ("a/b", "/a~1b", "list", 3)
    assert [(node.text, node.kind, node.pointer) for node in first.children] == [
        ("1.10", "number", "/a~1b/0"),
        ("true", "yes-no", "/a~1b/1"),
        ("null", "null", "/a~1b/2"),
    ]
    assert (second.text, second.kind, second.is_cut) == ("text", "text", False)


def test_what_is_large_is_cut_and_says_so() -> None:
    root = build_tree({"long": "x" * 1000, "many": list(range(MOST_CHILDREN + 5))})

    long, many = root.children
    assert long.is_cut
    assert len(long.text) < 300
    assert many.is_cut
    assert len(many.children) == MOST_CHILDREN


def test_nothing_near_the_top_is_left_out_because_of_something_deep() -> None:
    deep: dict[str, object] = {}
    for _ in range(300):
        deep = {"in": deep, "beside": 1}

    root = build_tree({"deep": deep, "last": 1}, most_nodes=10)

    assert [node.name for node in root.children] == ["deep", "last"]


def test_words_are_found_in_names_and_values_in_any_case() -> None:
    state = {"Plan": {"steps": ["build", "PLANT"]}, "other": 42}

    assert list(find(state, "plan")) == [("/Plan", "object"), ("/Plan/steps/1", "PLANT")]
    assert list(find(state, "42")) == [("/other", "42")]


@pytest.mark.parametrize("pointer", ["x", "/c", "/a/9", "/a/x", "/a/0/1"])
def test_a_place_that_is_not_there_is_refused(pointer: str) -> None:
    with pytest.raises(LookupError):
        read_pointer({"a": [1]}, pointer)


def test_a_value_is_read_back_as_it_was_written() -> None:
    assert write(read_pointer(parse(b'{"a": {"~/": [1.10]}}'), "/a/~0~1")) == b"[1.10]"

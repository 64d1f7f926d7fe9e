import pytest

from holdfast.styles.measures import add_confidence, add_cost, add_evaluation, nears_limit, sinks_below

NOW = "2026-11-17T20:00:00.000Z"


def test_costs_add_up_by_item_without_noise_in_the_digits() -> None:
    state = add_cost({}, 0.1, "model", NOW)
    state |= add_cost(state, 0.2, "model", NOW)
    state |= add_cost(state, 1, None, NOW)

    assert (state["cost_accumulated"], state["cost_breakdown"]) == (1.3, {"model": 0.3})
    assert [entry["total"] for entry in state["cost_history"]] == [0.1, 0.3, 1.3]


def test_a_history_of_costs_does_not_grow_for_ever() -> None:
    state = {"cost_history": [{"timestamp": NOW, "total": 0}] * 1000}

    history = add_cost(state, 1, None, NOW)["cost_history"]

    assert (len(history), history[-1]["total"]) == (1000, 1)


@pytest.mark.parametrize(
    ("before", "now", "limit", "expected"),
    [
        (0, 7.99, 10, False),
        (7.99, 8, 10, True),
        (0, 12, 10, True),
        (8, 9, 10, False),
        (0, 100, None, False),
    ],
)
def test_the_cost_comes_near_its_limit_once(
    before: float, now: float, limit: float | None, expected: bool
) -> None:
    assert nears_limit(before, now, limit) is expected


@pytest.mark.parametrize(
    ("before", "now", "limit", "expected"),
    [
        (None, 0.7, 0.75, True),
        (0.9, 0.7, 0.75, True),
        (0.7, 0.6, 0.75, False),
        (0.7, 0.75, 0.75, False),
        (0.9, None, 0.75, False),
        (0.9, "low", 0.75, False),
        (0.9, 0.1, None, False),
    ],
)
def test_a_confidence_sinks_below_its_limit_once(
    before: object, now: object, limit: float | None, expected: bool
) -> None:
    assert sinks_below(before, now, limit) is expected


def test_evaluations_are_numbered_unless_told() -> None:
    state = add_evaluation({}, 0.5, NOW, iteration=None, details={"scores": {"facts": 0.5}, "passed": None})
    state |= add_evaluation(state, 0.9, NOW, iteration=7, details={})

    assert state["evaluation_history"] == [
        {"timestamp": NOW, "iteration": 1, "score": 0.5, "scores": {"facts": 0.5}},
        {"timestamp": NOW, "iteration": 7, "score": 0.9},
    ]


def test_the_history_of_confidences_keeps_the_newest() -> None:
    progress: dict[str, object] = {}
    for number in range(1005):
        progress = add_confidence(progress, "writer", number, NOW)

    history = progress["confidence_history"]
    assert isinstance(history, list)
    assert len(history) == 1000
    assert history[-1] == {"timestamp": NOW, "agent": "writer", "confidence": 1004}

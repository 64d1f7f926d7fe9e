"""HoldfastSaver under real graphs; scripts/langgraph-conformance has LangGraph's own suite."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from holdfast.langgraph import HoldfastSaver
from tests.unit.langgraph.conftest import MakeSaver

CONFIG: Any = {"configurable": {"thread_id": "chat-7"}}


class Story(TypedDict):
    words: Annotated[list[str], operator.add]


def build_graph(saver: HoldfastSaver, calls: list[str]) -> Any:
    def step(name: str) -> Any:
        def run(_state: Story) -> dict[str, list[str]]:
            calls.append(name)
            return {"words": [name]}

        return run

    def ask(_state: Story) -> dict[str, list[str]]:
        return {"words": [interrupt("which word?")]}

    graph: Any = StateGraph(Story)
    graph.add_node("one", step("one"))
    graph.add_node("ask", ask)
    graph.add_node("two", step("two"))
    graph.add_edge(START, "one")
    graph.add_edge("one", "ask")
    graph.add_edge("ask", "two")
    graph.add_edge("two", END)
    return graph.compile(checkpointer=saver)


def put(saver: HoldfastSaver, thread_id: str, checkpoint_id: str, **values: Any) -> Any:
    checkpoint: Checkpoint = {**empty_checkpoint(), "id": checkpoint_id, "channel_values": values}
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    return saver.put(config, checkpoint, {"source": "loop", "step": 1}, {})


def ids(saver: HoldfastSaver, config: Any, **options: Any) -> list[str]:
    return [found.checkpoint["id"] for found in saver.list(config, **options)]


@pytest.mark.slow
def test_graph_goes_on_on_another_machine(make_saver: MakeSaver) -> None:
    calls: list[str] = []
    here, there = make_saver("here"), make_saver("there")
    build_graph(here, calls).invoke({"words": []}, CONFIG)
    here.holdfast.drain()

    done = build_graph(there, calls).invoke(Command(resume="mine"), CONFIG)

    assert done == {"words": ["one", "mine", "two"]}
    assert calls == ["one", "two"]


@pytest.mark.slow
def test_graph_goes_on_before_any_drain_and_travels_in_time(saver: HoldfastSaver) -> None:
    calls: list[str] = []
    graph = build_graph(saver, calls)
    graph.invoke({"words": []}, CONFIG)
    graph.invoke(Command(resume="mine"), CONFIG)

    past = [state for state in graph.get_state_history(CONFIG) if state.next == ("two",)]
    again = graph.invoke(None, past[0].config)

    assert again == {"words": ["one", "mine", "two"]}
    assert calls == ["one", "two", "two"]


def test_asynchronous_graph(saver: HoldfastSaver) -> None:
    graph = build_graph(saver, [])

    async def run() -> Any:
        await graph.ainvoke({"words": []}, CONFIG)
        return await graph.ainvoke(Command(resume="mine"), CONFIG)

    assert asyncio.run(run()) == {"words": ["one", "mine", "two"]}


def test_channel_values_are_members_of_the_state(saver: HoldfastSaver) -> None:
    put(saver, "chat-7", "1a", words=["a"], pair={1, 2})

    plan = saver.holdfast.resume("chat-7")

    assert plan.state["channel_values"]["words"] == ["a"]
    assert plan.state["channel_values"]["pair"].keys() == {"$langgraph"}
    assert plan.phase == "1a checkpoint"
    (run,) = saver.holdfast.runs(workflow="langgraph")
    assert run.run_id == "chat-7"


def test_thread_that_cannot_name_a_run_is_found_under_its_own_name(saver: HoldfastSaver) -> None:
    put(saver, "kim@example.org", "1a", words=["a"])

    (found,) = saver.list(None)

    assert found.config["configurable"]["thread_id"] == "kim@example.org"
    assert found.checkpoint["channel_values"] == {"words": ["a"]}


def test_only_what_is_asked_for_is_read(saver: HoldfastSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        put(saver, "chat-7", f"1a{number:02}")
    read: list[int] = []
    original = saver.holdfast.checkpoints_by_id

    def count(run_id: str, wanted: Any) -> Any:
        read.append(len(wanted))
        return original(run_id, wanted)

    monkeypatch.setattr(saver.holdfast, "checkpoints_by_id", count)

    found = saver.get_tuple(CONFIG)

    assert found is not None
    assert found.checkpoint["id"] == "1a29"
    assert read == [1]


def test_list_across_threads_is_newest_first_with_limit_and_before(saver: HoldfastSaver) -> None:
    for number in range(4):
        put(saver, f"t{number % 2}", f"1a{number}")

    before: Any = {"configurable": {"checkpoint_id": "1a3"}}
    assert ids(saver, None) == ["1a3", "1a2", "1a1", "1a0"]
    assert ids(saver, None, before=before, limit=2) == ["1a2", "1a1"]
    assert ids(saver, None, filter={"step": 2}) == []


def test_deleted_thread_is_gone_here_and_in_the_repository(make_saver: MakeSaver) -> None:
    here, there = make_saver("here"), make_saver("there")
    put(here, "chat-7", "1a")
    here.holdfast.drain()
    put(here, "chat-7", "1b")

    here.delete_thread("chat-7")
    here.holdfast.drain()

    assert here.get_tuple(CONFIG) is None
    assert there.get_tuple(CONFIG) is None
    put(here, "chat-7", "1a")
    assert ids(here, CONFIG) == ["1a"]


def test_prune_keeps_what_delta_channels_need(saver: HoldfastSaver) -> None:
    config: Any = {"configurable": {"thread_id": "chat-7", "checkpoint_ns": ""}}
    for name in ("1a", "1b", "1c"):
        metadata: Any = {"source": "loop", "counters_since_delta_snapshot": {"words": (1, 1)}}
        config = saver.put(config, {**empty_checkpoint(), "id": name}, metadata, {})

    saver.prune(["chat-7"])

    assert ids(saver, CONFIG) == ["1c", "1b", "1a"]


def test_strategy_that_is_none_is_refused(saver: HoldfastSaver) -> None:
    with pytest.raises(ValueError, match="keep_latest or delete"):
        saver.prune(["chat-7"], strategy="all")


@pytest.mark.parametrize(("current", "following"), [(None, 1), (1, 2), (2.0, 3), ("00000003.0123", 4)])
def test_versions_go_up(saver: HoldfastSaver, current: Any, following: int) -> None:
    assert saver.get_next_version(current, None) == following


def test_saver_closes_only_what_it_has_opened(saver: HoldfastSaver) -> None:
    with saver:
        pass
    put(saver, "chat-7", "1a")

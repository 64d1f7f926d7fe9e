from contextlib import suppress

from holdfast.recorder import AgentsRun
from tests.fakes.recording import Outage, Shelf


def test_an_agent_is_saved_when_it_has_finished(shelf: Shelf) -> None:
    with shelf.open(AgentsRun) as run:
        run.metrics["tokens_used"] = 10
        run.outputs.append("phase0/notes.md")
        run.confidence = 0.8
        with run.agent("atlas") as agent:
            agent.confidence = 0.9
            agent.state = {"page": 3}
            agent.output_ref = "phase0/atlas.md"
            assert (agent.confidence, agent.state, agent.output_ref) == (0.9, {"page": 3}, "phase0/atlas.md")

    assert shelf.triggers == ["specialist_finished", "run_complete"]
    progress = shelf.saved[0]["state_snapshot"]["progress"]
    assert progress["agents"]["atlas"] == {
        "status": "completed",
        "confidence": 0.9,
        "blockers": [],
        "state": {"page": 3},
        "last_decision": None,
        "output_ref": "phase0/atlas.md",
        "phase": 0,
        "recovery_attempts": 0,
    }
    assert (progress["phase"], progress["metrics"], progress["outputs"], progress["confidence"]) == (
        0,
        {"tokens_used": 10},
        ["phase0/notes.md"],
        0.8,
    )
    assert not shelf.resume("build-42").resumable


def test_a_decision_is_saved_and_is_the_last_one_of_its_agent(shelf: Shelf) -> None:
    run = shelf.open(AgentsRun)
    with run.agent("atlas"):
        receipt = run.decide(
            agent="atlas",
            type="workflow_adjustment",
            description="Spawned another specialist",
            rationale="Confidence was low",
            confidence=0.7,
            alternatives=["ask a person"],
        )
        assert receipt is not None
        (decision,) = shelf.progress["decisions"]
        assert decision == {
            "timestamp": shelf.newest["timestamp"],
            "agent": "atlas",
            "type": "workflow_adjustment",
            "description": "Spawned another specialist",
            "rationale": "Confidence was low",
            "confidence": 0.7,
            "alternatives_considered": ["ask a person"],
        }
        assert shelf.progress["agents"]["atlas"]["last_decision"] == "Spawned another specialist"


def test_a_decision_of_an_agent_that_is_not_at_work_is_kept(shelf: Shelf) -> None:
    shelf.open(AgentsRun).decide(agent="apollo", type="review", description="Accepted")

    assert shelf.progress["decisions"][0]["agent"] == "apollo"
    assert shelf.progress["agents"] == {}


def test_a_failed_agent_is_saved_once_with_what_blocked_it(shelf: Shelf) -> None:
    with suppress(Outage), shelf.open(AgentsRun) as run, run.phase(2), run.agent("mercury") as agent:
        agent.state = {"page": 3}
        agent.block("no access")
        raise Outage

    assert shelf.triggers == ["error"]
    assert shelf.newest["status"] == "failed"
    agent_record = shelf.progress["agents"]["mercury"]
    assert (agent_record["status"], agent_record["blockers"]) == ("failed", ["no access"])
    plan = shelf.resume("build-42")
    assert (plan.resume_at, plan.remaining, plan.retry_current) == (2, ["mercury"], True)


def test_a_restarted_agent_knows_its_state_and_counts_the_attempt(shelf: Shelf) -> None:
    first = shelf.open(AgentsRun)
    with suppress(Outage), first.agent("mercury") as agent:
        agent.state = {"page": 3}
        agent.block("no access")
        raise Outage

    again = shelf.open(AgentsRun)
    again.resume()
    assert again.remaining(["mercury"]) == ["mercury"]
    with again.agent("mercury") as agent:
        assert agent.state == {"page": 3}
        again.checkpoint()
    assert shelf.saved[-2]["state_snapshot"]["progress"]["agents"]["mercury"]["recovery_attempts"] == 1
    assert shelf.progress["agents"]["mercury"]["recovery_attempts"] == 0


def test_other_agents_that_finish_do_not_count_as_attempts_of_a_failed_one(shelf: Shelf) -> None:
    run = shelf.open(AgentsRun)
    with suppress(Outage), run.agent("mercury"):
        raise Outage
    for number in range(5):
        with run.agent(f"apollo-{number}"):
            pass

    plan = shelf.resume("build-42")
    assert plan.sequence_number == 6
    assert plan.retry_current


def test_an_agent_that_fails_again_and_again_is_given_up(shelf: Shelf) -> None:
    run = shelf.open(AgentsRun)
    with run.agent("atlas"):
        pass
    for _ in range(4):
        with suppress(Outage), run.agent("mercury"):
            raise Outage

    assert shelf.resume("build-42").sequence_number == 1


def test_after_a_phase_the_next_one_is_due_and_its_agents_work_anew(shelf: Shelf) -> None:
    run = shelf.open(AgentsRun)
    with run.phase(1), run.agent("atlas"):
        assert not run.is_done(1)
    assert shelf.triggers == ["specialist_finished", "phase_complete"]

    again = shelf.open(AgentsRun)
    again.resume()
    assert again.plan is not None
    assert again.plan.resume_at == 2
    assert again.remaining([1, 2, 3]) == [2, 3]
    with again.phase(2):
        assert again.remaining(["atlas"]) == ["atlas"]


def test_within_a_phase_a_completed_agent_is_done(shelf: Shelf) -> None:
    run = shelf.open(AgentsRun)
    with run.phase(1):
        with run.agent("atlas"):
            pass
        again = shelf.open(AgentsRun)
        again.resume()
        assert again.remaining(["atlas", "apollo"]) == ["apollo"]


def test_an_agent_that_is_altered_before_it_works_is_told(shelf: Shelf) -> None:
    failures: list[Exception] = []
    run = shelf.open(AgentsRun, on_failed=failures.append)

    run.agent("atlas").confidence = 0.5

    assert len(failures) == 1
    assert run.progress["agents"] == {}

"""The object graph: what lies around the client, and what a test may bring in."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.assembly import Assembly
from holdfast.errors import Silent, Unavailable
from holdfast.github.calls import ReadHead
from holdfast.github.patience import PATIENCE_S, Patience
from holdfast.library import Holdfast
from holdfast.settings import Settings
from holdfast.tracing import traces
from tests.fakes.assembly import make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

WRITER = ["CachingGateway", "RetryingGateway", "DeadlineGateway", "BudgetedGateway", "SkipCiGateway"]
CLEANER = ["LowPriorityGateway", *WRITER[1:]]


def wrappers(gateway: Any) -> list[str]:
    """Return the names of what lies around the client, from the outside in."""
    inner = getattr(gateway, "inner", None) or getattr(gateway, "_inner", None)
    return [type(gateway).__name__, *wrappers(inner)] if inner else []


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    return make_assembly(tmp_path, MemoryGateway(), VirtualClock(), branch="main")


def test_way_of_each_to_github_has_at_most_six_wrappers(assembly: Assembly) -> None:
    sweeper: Any = assembly.sweeper

    assert wrappers(assembly.worker.contents.gateway) == WRITER
    assert wrappers(sweeper.scanner.gateway) == CLEANER
    assert wrappers(sweeper.committer.gateway) == ["CachingGateway", *CLEANER]
    assert wrappers(assembly.preserved.gateway) == WRITER[1:]
    assembly.close()


def test_traces_make_no_way_to_github_any_deeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "is_on", True)
    given = {"repo": "octo/state", "data_dir": tmp_path, "token": "t", "branch": "main"}
    assembly = Assembly(Settings.from_environment({}, given))
    sweeper: Any = assembly.sweeper

    assert wrappers(assembly.worker.contents.gateway) == WRITER
    assert wrappers(sweeper.committer.gateway) == ["CachingGateway", *CLEANER]
    assembly.close()


def test_on_a_branch_of_our_own_no_mark_is_needed(tmp_path: Path) -> None:
    assembly = make_assembly(tmp_path, MemoryGateway(), VirtualClock())

    assert wrappers(assembly.worker.contents.gateway) == WRITER[:-1]
    assembly.close()


def test_gateway_and_clock_of_ones_own_take_the_place_of_githubs_and_the_machines(tmp_path: Path) -> None:
    repository, clock = MemoryGateway(), VirtualClock()
    repository.write_as_someone_else("checkpoints", {"README.md": b"hello"})
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    assembly = Assembly(settings, clock=clock, gateway=repository)

    head = assembly.preserved.gateway.perform(ReadHead("checkpoints"))

    assert head == repository.branches["checkpoints"]
    assert assembly.client is repository
    assert assembly.worker.deadline.clock is clock
    assembly.close()


def test_where_a_command_has_waited_in_vain_only_its_reading_is_given_up(tmp_path: Path) -> None:
    clock = VirtualClock()
    patience = Patience(clock)

    def wait_in_vain() -> None:
        with patience.asking("a.json"):
            clock.sleep(PATIENCE_S)
            raise Unavailable("a.json", "no answer", is_late=True)

    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    assembly = Assembly(settings, clock=clock, gateway=MemoryGateway(), patience=patience)
    with Holdfast(settings, assembly=assembly) as holdfast:
        with pytest.raises(Silent):
            wait_in_vain()

        with pytest.raises(Silent):
            holdfast.runs()
        with holdfast.claim("r", owner="me") as claim:
            assert claim.is_held
        holdfast.save("r", {"n": 1})
        assert holdfast.drain().verified == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "is_light"),
    [({"token": "t"}, True), ({"app_id": "7", "app_private_key": "key"}, False)],
    ids=["token", "app"],
)
def test_readers_get_a_client_of_their_own_only_if_it_spares_loading_githubkit(
    settings: dict[str, str], is_light: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    given = {"repo": "octo/state", "data_dir": tmp_path, **settings}
    assembly = Assembly(Settings.from_environment({}, given))

    assert (type(assembly.reading_client).__name__ == "LightClient") is is_light
    assert (assembly.reading_client is not assembly.client) is is_light
    assembly.close()


def test_worker_and_what_it_prunes_end_with_the_same_deadline(assembly: Assembly) -> None:
    deadline = assembly.worker.deadline

    assert assembly.worker.contents.deadline is assembly.worker.commits.deadline is deadline
    assert assembly.sweeper.deadline is not deadline
    assembly.close()


def test_a_token_in_a_file_is_a_secret_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first-token\n")
    assembly = Assembly(Settings.from_environment({}, {"data_dir": tmp_path, "token_file": file}))

    before = assembly.secrets()
    file.write_text("the-second-token\n")

    assert (before, assembly.secrets()) == (["first-token"], ["the-second-token"])

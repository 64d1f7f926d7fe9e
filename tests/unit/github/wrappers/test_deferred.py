from holdfast.github.inspection import ReadRepository
from holdfast.github.wrappers.deferred import DeferredGateway
from tests.fakes.memory_gateway import MemoryGateway


def test_gateway_is_made_once_and_not_before_the_first_call() -> None:
    made: list[MemoryGateway] = []

    def make() -> MemoryGateway:
        made.append(MemoryGateway())
        return made[-1]

    gateway = DeferredGateway(make)
    assert made == []

    gateway.perform(ReadRepository())
    gateway.perform(ReadRepository())

    assert len(made) == 1
    assert len(made[0].calls) == 2

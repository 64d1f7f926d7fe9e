"""One sidecar for the tests of a module: they use runs of their own."""

from collections.abc import Iterator

import pytest

from tests.fakes.sidecar import RunningSidecar, running_sidecar


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSidecar]:
    with running_sidecar(tmp_path_factory.mktemp("sidecar")) as running:
        yield running

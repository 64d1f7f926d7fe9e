import pytest

from tests.fakes.recording import Shelf


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()

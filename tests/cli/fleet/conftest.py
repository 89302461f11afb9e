import pytest

from tests.cli.fleet.commands import fleet
from tests.fleet.conftest import nothing_left as nothing_left


@pytest.fixture
def running(nothing_left: None) -> None:
    """A fleet on this machine, started as a person does."""
    fleet("up", "--name", "n1", "--slots", "2", "--lease", "2", "--no-page")

import pytest

from tests.cli.fleet import commands
from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left


@pytest.fixture
def running(nothing_left: None) -> None:
    """A fleet on this machine, started as a person does."""
    commands.fleet("up", "--name", "n1", "--slots", "2", "--lease", "2", "--no-page")

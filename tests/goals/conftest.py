"""A fleet on which goals are carried out."""

import pytest

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.conftest import start_node as start_node
from tests.fleet.warmed import warm_runners as warm_runners
from treadle.goals import foreman
from treadle.landing import train


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreman, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(train, "IDLE_SECONDS", 0.05)

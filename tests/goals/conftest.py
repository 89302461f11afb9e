"""A fleet on which goals are carried out."""

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.conftest import start_node as start_node
from tests.fleet.warmed import warm_runners as warm_runners

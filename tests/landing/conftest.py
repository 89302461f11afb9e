"""A fleet's engine, a repository, and finished orders of which only the results exist."""

from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.warmed import warm_runners as warm_runners
from tests.landing.finished import finished as finished

"""Orders and sessions are run here as in the tests of the host and of the agent."""

from tests.agent.conftest import opened, work  # noqa: F401
from tests.host.conftest import run, source, store  # noqa: F401

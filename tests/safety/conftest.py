"""Orders are run here as in the host's own tests."""

from tests.host.conftest import run, source, store  # noqa: F401

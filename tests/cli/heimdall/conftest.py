"""The commands are run in the same repository as the tests of what is behind them."""

from tests.coordination.conftest import heimdall, installed, project, quiet_git

__all__ = ["heimdall", "installed", "project", "quiet_git"]

"""The commands are run in the same repository as the tests of what is behind them."""

from tests.coordination.conftest import heimdall, installed, prepared, project, quiet_git

__all__ = ["heimdall", "installed", "prepared", "project", "quiet_git"]

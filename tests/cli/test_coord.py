"""`treadle coord`: the `heimdall-*` commands under the one program."""

import subprocess
from pathlib import Path

from tests.coordination.conftest import BIN, Run, heimdall, installed, project, quiet_git
from treadle.cli.heimdall import COMMANDS

__all__ = ["heimdall", "installed", "project", "quiet_git"]


def test_treadle_coord_is_the_same_commands(heimdall: Run, project: Path) -> None:
    def coord(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = [str(BIN / "treadle"), "coord", *arguments]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, input=stdin)

    assert coord("resolve", "set", "F1", "x").stdout == "F1 = x\n"
    assert heimdall("resolve", "F1").stdout == "x\n"
    assert coord("resolve", "F9").returncode == 1
    assert coord("resolve", "--help").stdout == heimdall("resolve", "--help").stdout
    assert coord("validate", stdin="{").stdout == '{"valid":false,"errors":["unparseable JSON"]}\n'
    overview = coord()
    assert overview.returncode == 0 and all(name in overview.stdout for name in COMMANDS)
    assert coord("nonsense").returncode == 2

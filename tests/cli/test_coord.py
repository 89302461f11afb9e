"""`treadle coord`: the `heimdall-*` commands under the one program."""

import subprocess
from pathlib import Path

from click.testing import CliRunner

from tests.coordination.conftest import BIN, Run, heimdall, installed, project, quiet_git
from treadle.cli.heimdall import COMMANDS, OF_TREADLE
from treadle.cli.project import coord

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


def test_without_a_name_or_with_help_all_are_listed_and_a_wrong_one_is_told_which_there_are() -> None:
    listed = CliRunner().invoke(coord).output
    assert listed.startswith("Usage: treadle coord NAME ...\n\n") and listed.endswith("--help` says more.\n")
    ours, theirs = listed.split("\nThe same as heimdall-NAME:\n\n")
    assert [line.split()[0] for line in ours.splitlines()[2:]] == list(OF_TREADLE)
    assert [line.split()[0] for line in theirs.splitlines() if line.startswith("  ")] == list(COMMANDS)
    assert all(what in listed for what in (*OF_TREADLE.values(), *COMMANDS.values()))
    for word in ("-h", "--help", "help"):
        assert CliRunner().invoke(coord, [word]).output == listed
    wrong = CliRunner().invoke(coord, ["nonsense"])
    assert wrong.exit_code == 2 and "there is no 'nonsense'; there are " in " ".join(wrong.output.split())
    assert all(name in wrong.output for name in (*OF_TREADLE, *COMMANDS))

"""What all `heimdall-*` commands share: arguments, exit codes, weight; and `treadle coord`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.coordination.conftest import BIN, Run
from treadle.cli.heimdall import COMMANDS


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "ledger-mcp"])
def test_help_may_be_asked_for_after_a_subcommand(heimdall: Run, name: str) -> None:
    done = heimdall(name, "list", "--help")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == heimdall(name, "--help").stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_does_its_work_whatever_streams_are_missing(heimdall: Run, project: Path, closed: str) -> None:
    command = f'"{BIN}/heimdall-resolve" set F1 x {closed}; echo $?; "{BIN}/heimdall-validate" {closed}; echo $?'
    done = subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, text=True, input="{}")
    assert [line for line in done.stdout.splitlines() if line.isdecimal()] == ["0", "1"] and done.stderr == ""
    assert heimdall("resolve", "F1").stdout == "x\n"


def test_output_that_cannot_be_written_is_said_in_one_line(project: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for arguments in (["--help"], ["list"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [str(BIN / "heimdall-claim"), *arguments], cwd=project, stdout=full, stderr=subprocess.PIPE, env=env
            )
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_light(name: str) -> None:
    code = f"import sys; from treadle.cli.heimdall import find; find({name!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"msgspec", "asyncio", "dataclasses", "psutil", "tomllib", "click", "inspect", "typing"}
    assert not heavy & set(loaded.split())


def test_a_reader_that_goes_away_is_not_an_error_message(heimdall: Run, project: Path) -> None:
    heimdall("resolve", "set", "F1", "x" * 100_000)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([str(BIN / "heimdall-resolve"), "F1"], stdout=write, stderr=subprocess.PIPE, cwd=project)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_read_only_directory_is_said_and_nothing_is_lost(heimdall: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    done = heimdall("resolve", "set", "F1", "x", HEIMDALL_PLANNING_DIR=str(tmp_path / "file"))
    assert done.returncode == 2 and "cannot" in done.stderr and "Traceback" not in done.stderr


# The reference pages...

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_reference_has_what_help_says(heimdall: Run, name: str) -> None:
    assert f"```text\n{heimdall(name, '--help').stdout}```" in (DOCS / "heimdall-commands.md").read_text()


@pytest.mark.parametrize("name", ["setup", "hook", "allow", "message"])
def test_the_reference_has_what_only_treadle_has(project: Path, name: str) -> None:
    told = subprocess.run([str(BIN / "treadle"), "coord", name, "--help"], capture_output=True, text=True, cwd=project)
    assert f"```text\n{told.stdout}```" in (DOCS / "heimdall-commands.md").read_text()


def test_the_reference_has_every_message_and_every_tool() -> None:
    from treadle.coordination.mcp import ALL
    from treadle.wire.heimdall.messages import TYPES

    protocol, server = ((DOCS / name).read_text() for name in ("coordination-protocol.md", "ledger-mcp.md"))
    for name, schema in TYPES.items():
        (row,) = [line for line in protocol.splitlines() if line.startswith(f"| `{name}` |")]
        assert all(f"`{field}`" in row for field in schema["properties"])
    for tool in ALL:
        (row,) = [line for line in server.splitlines() if line.startswith(f"| `{tool.name}` |")]
        assert all(f"`{field}`" in row for field in tool.schema["properties"] if field != "client_identity")

"""A person's own table, from a wrong state to a right one."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from tests.terminal.support import until
from treadle.cli.terminal import status
from treadle.errors import ConfigError
from treadle.io import paths

TABLE = """
name = "talker"
known_by = ['^Talker v\\d']
block = '\\* '
signs = [{ state = "working", where = "footer", pattern = 'busy' }]

[box]
first = '>(\\s|$)'
"""


@pytest.fixture
def table(shell: Shell) -> Path:
    """The table, where the installed command looks for it, and a program of that name."""
    directory = Path(os.path.dirname(paths.config_file())) / "detectors"
    directory.mkdir(parents=True)
    (directory / "talker.toml").write_text(TABLE)
    program = shell.cwd / "talker"
    program.write_text("#!/bin/sh\nstty -echo\nprintf '* hello\\n\\n> '\nexec cat\n")
    program.chmod(0o755)
    return directory / "talker.toml"


def test_an_agent_is_judged_by_its_users_table(shell: Shell, table: Path) -> None:
    shell("run", "--detach", "--id", "t", "--", "./talker")
    shell("wait", "t", "--state", "idle", "--timeout", "50")
    text = shell("explain", "t")
    assert "agent:    talker, known by command" in text and f"table:    {table}" in text
    rows = {row["agent"]: row for row in json.loads(shell("detectors", "--json"))}
    assert rows["talker"]["whose"] == "yours" and rows["claude"]["whose"] == "installed"
    assert f"talker     yours      {table}" in shell("detectors", "ls")


def test_a_labelled_moment_shows_that_a_table_is_wrong(shell: Shell, table: Path) -> None:
    assert "no labelled moments" in shell.run("detectors", "test", str(table)).stderr
    shell("run", "--detach", "--id", "t", "--", "./talker")
    until(lambda: "hello" in shell("peek", "t"))
    assert "talker.moments.toml" in shell("explain", "t", "--record", "idle")
    assert "1 of 1 moments" in shell("detectors", "test", str(table))
    shell("explain", "t", "--record", "question")
    done = shell.run("detectors", "test", str(table))
    assert done.returncode == 1 and "moment 2: labelled question, judged idle" in done.stdout
    assert shell.run("explain", "t", "--record", "sleepy").returncode == 1


def test_a_table_that_cannot_be_read_is_told_and_stops_no_other(shell: Shell, table: Path) -> None:
    table.write_text(TABLE.replace("first", "frist"))
    done = shell.run("run", "--detach", "--id", "t", "--", "./talker")
    assert done.returncode == 1 and "box.frist is not known" in done.stderr
    assert "CANNOT BE READ" in shell("detectors")
    (table.parent / "gone.toml").symlink_to("nowhere")
    shell("run", "--detach", "--id", "c", "--", "sh", "-c", "printf 'x\\n$ '; cat")
    shell("wait", "c", "--state", "idle", "--timeout", "50")
    text = shell("explain", "c")
    assert "talker: " in text and "gone: " in text


MOMENTS = """
[[moment]]
state = "idle"
screen = ["* hello", "", "> "]

[[moment]]
state = "{}"
screen = ["* hello", "", "> ", "busy"]
"""


def test_each_moment_is_judged_and_one_that_is_judged_otherwise_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, beside = tmp_path / "talker.toml", tmp_path / "talker.moments.toml"
    path.write_text(TABLE)
    with pytest.raises(ConfigError, match="has no labelled moments in .*talker.moments.toml") as refused:
        status.detectors_command(["test", str(path)])
    assert "explain ID --record STATE --to FILE" in str(refused.value.hint)
    beside.write_text(MOMENTS.format("working"))
    assert status.detectors_command(["test", str(path)]) == 0
    assert capsys.readouterr() == (f"{path}: 2 of 2 moments are judged as labelled\n", "")
    assert status.detectors_command(["test", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["labelled"], row["judged"]) for row in rows] == [("idle", "idle"), ("working", "working")]
    assert "busy" in rows[1]["because"]
    beside.write_text(MOMENTS.format("error"))
    assert status.detectors_command(["test", "--json", str(path)]) == 1
    capsys.readouterr()
    assert status.detectors_command(["test", str(path), str(path)]) == 1
    wrong = "moment 2: labelled error, judged working, because of screen: busy\n"
    assert capsys.readouterr().out == f"{wrong}{path}: 1 of 2 moments are judged as labelled\n" * 2
    beside.write_text("")
    assert status.detectors_command(["test", str(path)]) == 1
    assert capsys.readouterr() == (
        f"{path}: 0 of 0 moments are judged as labelled\n",
        f"treadle detectors: {beside} has no moments\n",
    )

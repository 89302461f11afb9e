"""The terminal commands as a person types them, with the installed program."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from tests.imports import loaded_by
from tests.terminal.support import until
from treadle.cli.terminal import duration
from treadle.errors import ConfigError
from treadle.io.process import table


def test_ps_lists_a_terminal_until_it_is_gone(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "0", "--", "sleep", "60")
    supervisor, child = shell.place("x").pids()
    [tree] = json.loads(shell("ps", "--json"))
    assert (tree["owner"], tree["pid"], tree["command"], tree["running"]) == (supervisor, child, ["sleep", "60"], True)
    shell("kill", "x")
    until(lambda: json.loads(shell("ps", "--json")) == [])


def test_resize_changes_the_size_whatever_the_policy(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--resize", "fixed", "--", "sleep", "60")
    shell("resize", "x", "100x30")
    size = json.loads(shell("status", "x", "--json"))["size"]
    assert (size["cols"], size["rows"], size["policy"]) == (100, 30, "fixed")
    assert shell.run("resize", "x", "wide").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("status", "nobody"), 1, "No session found: nobody"),
        (("status", "../x"), 1, "cannot be the id"),
        (("status",), 2, "expected one id"),
        (("run", "--detach"), 1, "no command"),
        (("run", "--detach", "--cols", "many", "true"), 2, "--cols"),
        (("run", "--detach", "--workdir", "/nowhere", "true"), 1, "/nowhere"),
        (("run", "--frobnicate", "true"), 2, "--frobnicate"),
        (("run", "true"), 2, "--detach"),
        (("run", "--detach", "--env", "novalue", "true"), 2, "NAME=VALUE"),
        (("run", "--detach", "--config", "/nowhere.toml", "true"), 1, "/nowhere.toml"),
        (("wait", "nobody", "--state", "x"), 1, "No session found"),
        (("replay", "/nowhere"), 1, "/nowhere"),
        (("run", "--detach", "--linger", "1e10", "true"), 2, "from 0 to 1e+09"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(shell: Shell, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = shell.run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr and "Traceback" not in done.stderr


def test_the_small_commands_import_nothing_heavy(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sleep", "60")
    heavy = {"msgspec", "asyncio", "psutil", "tomllib", "click", "typing", "http"}
    if sys.version_info < (3, 14):  # from then on argparse itself loads them, for its colours
        heavy |= {"dataclasses", "inspect"}
    for arguments in (["status", "x"], ["send", "x", "hi"], ["ls"], ["run", "--detach", "--id", "y", "--", "true"]):
        _, loaded = loaded_by(*arguments)
        assert "treadle.cli" in loaded and not heavy & loaded, arguments


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h30m", 9000), ("1d", 86400), ("1d2h3m4s", 93784)]
)
def test_a_duration_is_digits_and_units(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "10", "5w", "m", "1h5", "-5m", "1.5h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        duration(text)


def test_ps_says_which_terminal_a_supervisor_has(shell: Shell) -> None:
    shell("run", "--id", "a1", "--detach", "--", "cat")
    supervisor = shell.place("a1").pids()[0]
    assert " ".join(table.command_line(supervisor)).startswith("treadle: terminal a1")
    (reaper,) = [each for each in table.descendants(supervisor) if each.parent == supervisor]
    assert " ".join(table.command_line(reaper.pid)).startswith("treadle: reaper of a terminal")
    shell("rename", "a1", "b2")
    assert " ".join(table.command_line(supervisor)).startswith("treadle: terminal b2")


def test_rename_gives_another_id_and_the_program_goes_on(shell: Shell) -> None:
    shell("run", "--detach", "--id", "old", "--", "sh", "-c", "echo hello; exec cat")
    supervisor, child = shell.place("old").pids()
    assert shell("rename", "old", "new") == "new\n"
    assert shell.place("new").pids() == (supervisor, child)
    assert "old" not in shell("ls") and "new" in shell("ls")
    assert "No session found" in shell.run("status", "old").stderr
    shell("send", "new", "typed", "--enter", "--anyway")
    until(lambda: "typed" in shell.written("new"))
    assert shell("tail", "new").startswith("hello")
    shell("run", "--detach", "--id", "old", "--", "cat")  # its state file is another one
    files = [json.loads(shell("status", name, "--json"))["state_file"] for name in ("old", "new")]
    assert len(set(files)) == 2
    assert "is already running" in shell.run("rename", "new", "old").stderr
    assert "cannot be the id" in shell.run("rename", "new", "../x").stderr
    shell("kill", "new")
    assert shell("wait", "new", "--exit", code=None) == ""
    assert json.loads(Path(shell.place("new").exit).read_text())["id"] == "new"


def test_one_that_was_renamed_and_killed_leaves_its_record_under_its_last_id(shell: Shell) -> None:
    shell("run", "--detach", "--id", "old", "--", "cat")
    shell("rename", "old", "new")
    os.kill(shell.place("new").pids()[0], signal.SIGKILL)
    until(lambda: Path(shell.place("new").exit).exists())
    assert json.loads(Path(shell.place("new").exit).read_text())["id"] == "new"
    until(lambda: not Path(shell.place("new").pid).exists())
    assert not Path(shell.place("old").exit).exists()

"""`treadle restore` and `ls --lost`: what a reboot or a killed supervisor ended is started again, nothing else."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from tests.cli.terminal.test_worktrees import repository, start
from tests.terminal.support import alive, until
from treadle.errors import Unsupported
from treadle.io.files import is_locked
from treadle.terminal.places import Place
from treadle.terminal.restore import CHOOSE, FRESH, LAST, again

__all__ = ["repository"]


def end(place: Place, how: signal.Signals) -> None:
    supervisor = place.pids()[0]
    os.kill(supervisor, how)
    until(lambda: not alive(supervisor) and not is_locked(place.pid))


def fake(shell: Shell, agent: str) -> str:
    """A program by an agent's name, which writes what it is given."""
    program = shell.cwd / agent
    program.write_text('#!/bin/sh\necho "given: $*"\nexec sleep 100\n')
    program.chmod(0o700)
    return str(program)


def lost(shell: Shell) -> list[str]:
    return [row["id"] for row in json.loads(shell("ls", "--lost", "--json"))]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_what_a_signal_to_its_supervisor_ended_is_lost_and_is_restored_as_it_was(
    how: signal.Signals, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    shell("run", "--detach", "--id", "x", "--workdir", "sub", "--cols", "77", "--", "sleep", "100")
    assert lost(shell) == []
    end(shell.place("x"), how)
    listed = shell("ls", "--lost")
    assert "x  seen" in listed and "sleep 100" in listed and "treadle restore" in listed
    assert shell("restore", "x") == "x: the same command again\n"
    detail = json.loads(shell("status", "x", "--json"))
    assert detail["workdir"] == str(tmp_path / "sub") and detail["size"]["cols"] == 77 and lost(shell) == []


def test_all_restores_every_agent_with_its_conversation_and_leaves_other_programs(shell: Shell) -> None:
    shell("run", "--detach", "--id", "c", "--", fake(shell, "claude"), "--model", "opus", "fix it")
    shell("run", "--detach", "--id", "s", "--", "sleep", "100")
    for name in ("c", "s"):
        end(shell.place(name), signal.SIGKILL)
    said = shell("restore", "--all").splitlines()
    assert said[0] == "c: its last conversation there; not sent again: fix it"
    assert said[1].startswith("s: not restored: not an agent")
    until(lambda: "given: --continue --model opus" in shell.written("c"))
    assert lost(shell) == ["s"]


def test_the_values_of_given_variables_are_not_stored_and_are_asked_for(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("run", "--detach", "--id", "x", "--env", "TOKEN=sesame", "--", "sh", "-c", "echo $TOKEN; exec sleep 100")
    end(shell.place("x"), signal.SIGKILL)
    stored = [path for path in shell.directory.glob("x.*") if path.suffix != ".out"]
    assert not [path for path in stored if b"sesame" in path.read_bytes()]
    done = shell.run("restore", "x")
    assert done.returncode == 1 and "TOKEN=... treadle restore x" in done.stdout
    monkeypatch.setenv("TOKEN", "open")
    shell("restore", "x")
    until(lambda: "open" in shell.written("x"))


@pytest.mark.slow
def test_one_with_a_worktree_goes_on_in_it_and_its_id_is_given_to_no_other(shell: Shell, repository: Path) -> None:
    workdir = start(shell, "echo four >> a.txt")
    end(shell.place("w"), signal.SIGKILL)
    Path(shell.place("w").exit).unlink()  # as after a power cut
    assert "has left work" in shell.run("run", "--detach", "--id", "w", "--", "true").stderr
    assert "+four" in shell("diff", "w")
    shell("restore", "w")
    assert json.loads(shell("status", "w", "--json"))["workdir"] == str(workdir)


@pytest.mark.parametrize(
    ("command", "how", "expected"),
    [
        ("claude", LAST, "claude --continue"),
        ("claude", CHOOSE, "claude --resume"),
        ("claude", FRESH, "claude"),
        ("claude --verbose", LAST, "claude --continue --verbose"),
        ("claude --model=opus fix|this", LAST, "claude --continue --model=opus"),
        ("claude -- fix", LAST, "claude --continue"),
        ("claude --resume=abc", LAST, "claude --resume=abc"),
        ("npx @openai/codex --search", LAST, "npx @openai/codex resume --last --search"),
        ("codex resume abc", CHOOSE, "codex resume abc"),
        ("gemini", LAST, "gemini --resume latest"),
        ("gemini", CHOOSE, "gemini"),
        ("copilot", LAST, "copilot --resume"),
        ("opencode -m a/b", LAST, "opencode --continue -m a/b"),
        ("make test", LAST, "make test"),
    ],
)
def test_a_command_is_continued_without_its_prompt(command: str, how: str, expected: str) -> None:
    words = [word.replace("|", " ") for word in command.split()]
    assert again(words, how)[0] == expected.split()


@pytest.mark.parametrize("command", [["claude", "--verbose", "fix it"], ["claude", "--resume", "x", "fix it"]])
def test_a_word_that_may_be_a_prompt_is_not_sent_a_second_time(command: list[str]) -> None:
    with pytest.raises(Unsupported, match="may be a prompt"):
        again(command, LAST)

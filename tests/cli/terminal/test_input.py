"""`treadle send` and `wait`: what is typed, submitted, queued and refused, and what is waited for."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Shell, reporting
from tests.terminal.support import connected, until
from tests.waiting import stop
from treadle.cli.terminal import input


def test_send_and_wait_make_a_program_scriptable(shell: Shell) -> None:
    program = 'printf "\\033]7501;state=idle:app=x\\007"; '
    program += 'while read line; do printf "\\033]7501;state=working:app=x\\007"; sleep 0.2; echo "did $line"; '
    program += 'printf "\\033]7501;state=done:app=x\\007"; done'
    shell("run", "--detach", "--id", "agent", "--", "sh", "-c", program)
    shell("wait", "agent", "--state", "idle", "--timeout", "50")
    shell("send", "agent", "first", "task", "--enter", "--wait-idle", "--timeout", "50")
    assert "did first task" in shell("tail", "agent", "--strip")
    shell("send", "agent", "second\\n", "--escapes")
    shell("wait", "agent", "--state", "done", "--timeout", "50")
    until(lambda: "did second" in shell.written("agent"))


def test_wait_idle_tells_when_a_person_is_needed_and_send_does_not_press_buttons(shell: Shell) -> None:
    program = 'printf "\\033]7501;state=blocked:app=x:kind=permission:msg=cm0gLXJm\\007"; cat'
    shell("run", "--detach", "--id", "agent", "--", "sh", "-c", program)
    shell("wait", "agent", "--state", "permission", "--timeout", "50")
    assert shell("wait", "agent", "--state", "idle", "--timeout", "50", code=3) == "permission: rm -rf\n"
    done = shell.run("send", "agent", "hello", "--enter")
    assert done.returncode == 3 and "rm -rf" in done.stderr and "--anyway" in done.stderr
    shell("send", "agent", "hello", code=3)
    shell("send", "agent", "--enter", code=3)
    shell("send", "agent", "1", code=3)
    asked = json.loads(shell("status", "agent", "--json"))["state"]["dialog"]
    done = shell.run("send", "agent", "--answer", "1", "--to", asked)
    assert done.returncode == 0 and "asks the same again" in done.stderr
    shell("send", "agent", "yes", "--enter", "--anyway")
    until(lambda: "1yes" in shell.written("agent"))


@pytest.mark.parametrize("how", [(), ("--enter",), ("--wait",), ("--when-idle", "--wait"), ("--enter", "--anyway")])
@pytest.mark.slow
def test_a_send_ends_at_its_timeout_while_the_supervisor_is_stopped_and_nothing_is_typed_later(
    shell: Shell, how: tuple[str, ...]
) -> None:
    shell("run", "--detach", "--id", "x", "--env", "PS1=$ ", "--", "sh", "-i")
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    supervisor = shell.place("x").pids()[0]
    stop(supervisor)
    try:
        done = shell.run("send", "x", "too late", *how, "--timeout", "1")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert done.returncode == 124 and "not within 1 s" in done.stderr, done
    shell("send", "x", "echo af''ter", "--wait", "--timeout", "50")
    assert "after" in shell.written("x") and "too late" not in shell.written("x")


@pytest.mark.slow
def test_send_takes_a_file_standard_input_and_escapes(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("from a file\n")
    shell("run", "--detach", "--id", "x", "--", "cat", "-v")
    shell("send", "x", "--file", str(tmp_path / "text"))
    shell("send", "x", "--file", "-", stdin="from stdin\n")
    shell("send", "x", "tab\\tbell\\x01 back\\\\slash\\q\\n", "--escapes")
    until(lambda: "tab\tbell^A back\\slash\\q" in shell.written("x"))
    assert shell("tail", "x").count("from a file") == 2
    assert "from stdin" in shell("tail", "x")
    assert shell.run("send", "x").returncode == 2


def test_a_shell_with_a_prompt_is_idle_and_can_be_worked_with(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--env", "PS1=$ ", "--", "sh", "-i")
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    shell("send", "x", "sleep 0.2; echo su''m", "--wait-idle", "--timeout", "50")
    assert "sum" in shell("tail", "x")


REPLACEABLE = """
import os, tty
tty.setraw(0)
asked, text, working = [], "", False
while True:
    footer = "  esc to interrupt" if working else "  ? for shortcuts"
    lines = ["Claude Code v2.1.325", *asked, "\u2500" * 60, "\u276f " + text, "\u2500" * 60, footer]
    os.write(1, ("\\x1b[2J\\x1b[H" + "\\r\\n".join(lines)).encode())
    for letter in os.read(0, 4096).decode():
        if letter == "\\r" and text:
            working = text.startswith("wait")
            asked, text = [*asked, "\u276f " + text, "\u25cf Done."], ""
        elif letter == "\\x15":
            text = ""
        elif letter >= " ":
            text += letter
"""


def agent_program(shell: Shell, code: str) -> None:
    """Run a program that looks like Claude Code and is idle."""
    program = shell.cwd / "claude"
    program.write_text(f"#!{sys.executable} -ISu\n{code}")
    program.chmod(0o700)
    shell("run", "--detach", "--id", "x", "--", str(program))
    shell("wait", "x", "--state", "idle", "--timeout", "50")


@pytest.mark.slow
def test_what_is_queued_is_typed_in_order_one_for_each_turn_and_can_be_cancelled(shell: Shell) -> None:
    agent_program(shell, REPLACEABLE)
    shell("send", "x", "wait for it", "--enter")
    numbers = [shell("send", "x", f"step {step}", "--when-idle").strip() for step in range(3)]
    row = json.loads(shell("ls", "--json"))[0]
    assert [prompt["text"] for prompt in row["prompts"]][-3:] == ["step 0", "step 1", "step 2"]
    assert "3 queued" in shell("ls") and "step 1" in shell("status", "x")
    enter = shell("send", "x", "", "--enter", "--when-idle").strip()
    assert f"queued until it is idle: {enter}" in shell("status", "x")
    shell("send", "x", "--cancel", enter)
    assert "already" in shell.run("send", "x", "--cancel", "1").stderr
    shell("send", "x", "--cancel", numbers[1])
    done = shell.run("send", "x", "pushing in", "--enter")
    assert done.returncode == 3
    shell("send", "x", "go on", "--enter", "--anyway")
    shell("send", "x", "step 3", "--when-idle", "--wait", "--timeout", "50")
    asked = [line for line in shell("tail", "x").split("\x1b[2J")[-1].splitlines() if line.startswith("\u276f ")]
    assert asked[-4:] == ["\u276f step 0", "\u276f step 2", "\u276f step 3", "\u276f "]
    assert json.loads(shell("status", "x", "--json"))["prompts"] == []
    assert "nothing with the number" in shell.run("send", "x", "--cancel", numbers[2]).stderr


ASKS_AT_A_PROMPT = """\
import sys, termios
quiet = termios.tcgetattr(0)
quiet[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, quiet)
print("Aider v0.86.2", flush=True)
for question in ("Run shell command? (Y)es/(N)o [Yes]: ", "Create new file? (Y)es/(N)o [Yes]: "):
    print(question, end="", flush=True)
    print(repr(sys.stdin.readline()), flush=True)
print("Running it", end="", flush=True)
sys.stdin.readline()
"""


def test_a_dialog_is_answered_with_one_key_and_only_while_it_asks(shell: Shell) -> None:
    program = shell.cwd / "aider"
    program.write_text(f"#!{sys.executable}\n{ASKS_AT_A_PROMPT}")
    program.chmod(0o700)
    shell("run", "--detach", "--id", "x", "--", str(program))
    shell("wait", "x", "--state", "permission")
    assert "an answer is one key" in shell.run("send", "x", "--answer", "yes").stderr
    assert shell.run("send", "x", "y", "--enter").returncode == 3
    assert shell.run("send", "x", "--answer", "").returncode == 2
    assert shell.run("send", "x", "y", "--to", "1-abc").returncode == 2
    shell("send", "x", "--answer", "n")
    until(lambda: "'n\\n'" in shell.written("x") and "Create new file" in shell.written("x"))
    shell("wait", "x", "--state", "permission")
    shell("send", "x", "--answer", "\\r")
    shell("wait", "x", "--state", "starting")  # it has shown no prompt of its own yet
    refused = shell.run("send", "x", "--answer", "1")
    assert refused.returncode == 3 and "x has no open question, so nothing was typed" in refused.stderr


CODE = [r"re.sub('\n', '\t', s)", r"C:\new\table", r"printf 'a\x41\b\e[0m'", r"\\host\share", "a\\", r"\d+\b", "é\\n"]


def test_a_text_is_typed_as_it_is(here: Here) -> None:
    place = here.stage.start("cat", id="x")
    for text in CODE:
        code, _, err = here.run("send", "x", text)
        assert code == 0 and err.count("--escapes reads") == (input.unescape(text) != text.encode())
        with connected(place) as client:
            client.input(b"\n")
        until(lambda text=text: text in here("tail", "x"))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "expected an id and a text"),
        (("x",), 2, "there is nothing to send"),
        (("x", "a", "--when-idle", "--anyway"), 2, "--when-idle and --anyway cannot be combined"),
        (("x", "a", "--when-idle", "--force"), 2, "--when-idle and --anyway cannot"),
        (("x", "--answer", "1", "more"), 2, "--answer takes one key and no other text"),
        (("x", "--answer", "1", "--enter"), 2, "--answer takes one key and no other text"),
        (("x", "--cancel", "many"), 2, "--cancel must be a number"),
        (("x", "a"), 1, "session x has ended"),
        (("x", "--file", "/nowhere"), 1, "/nowhere"),
    ],
)
def test_what_cannot_be_sent_is_said(here: Here, words: tuple[str, ...], code: int, says: str) -> None:
    here.ended("x")
    found, out, err = here.run("send", *words)
    assert (found, out) == (code, "") and says in err


def test_wait_gives_the_programs_code_while_it_runs_and_long_after(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "0", "--", "sh", "-c", "sleep 0.3; exit 9")
    shell("wait", "x", "--exit", code=9)
    until(lambda: not os.path.exists(shell.place("x").pid))
    shell("wait", "x", "--exit", code=9)
    record = json.loads(shell("status", "x", "--json"))
    assert (record["code"], record["alive"]) == (9, False)


@pytest.mark.parametrize("what", [("--exit",), ("--state", "idle")])
def test_a_wait_ends_at_its_timeout_while_the_supervisor_is_stopped(shell: Shell, what: tuple[str, ...]) -> None:
    shell("run", "--detach", "--id", "x", "--", "cat")
    supervisor = shell.place("x").pids()[0]
    stop(supervisor)
    try:
        done = shell.run("wait", "x", *what, "--timeout", "1")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert done.returncode == 124 and "not within 1 s" in done.stderr, done


@pytest.mark.slow
def test_wait_idle_tells_what_became_of_the_turn(shell: Shell) -> None:
    for name, last, code in (("done", "done", 0), ("failed", "error", 5), ("asks", "blocked:kind=question", 3)):
        program = reporting("idle", "working").removesuffix("cat") + f"sleep 0.2; {reporting(last)}"
        shell("run", "--detach", "--id", name, "--", "sh", "-c", program)
        shell("wait", name, "--state", "idle", "--timeout", "50")
        shell("send", name, "go", "--wait-idle", "--timeout", "50", code=code)


@pytest.mark.slow
def test_of_several_the_first_that_gets_there_is_named(shell: Shell) -> None:
    shell("run", "--detach", "--id", "busy", "--", "sh", "-c", reporting("working"))
    shell("run", "--detach", "--id", "asks", "--", "sh", "-c", reporting("working", "blocked:kind=permission"))
    shell("wait", "asks", "--state", "working", "--timeout", "50")
    shell("send", "asks", "\\n", "--escapes")
    assert shell("wait", "--any", "busy", "asks", "--timeout", "50") == "asks permission\n"
    shell("wait", "busy", "asks", "--state", "idle", code=2)


def test_one_that_has_ended_is_dead_and_gets_nowhere_else(here: Here) -> None:
    here.ended("x", code=6)
    assert here("wait", "x", "--state", "dead") == "" and here("wait", "--any", "x") == "x dead\n"
    assert here.run("wait", "x", "--state", "idle") == (1, "", "treadle: x has ended\n")
    assert here("wait", "x", "--exit", code=6) == ""
    here.ended("x", code=None)
    assert here("wait", "x", "--exit", code=1) == ""
    Path(here.place("x").exit).unlink()
    Path(here.place("x").pid).touch()
    assert here.run("wait", "x", "--exit")[0] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x", "y", "--state", "idle"), "expected one id; for several say --any"),
        (("--any",), "expected ids"),
        (("x",), "--state is needed"),
        (("x", "--state", "idle,sleepy"), "unknown state 'sleepy'; it is one of idle, working"),
        (("x", "--state", "idle", "--timeout", "soon"), "--timeout must be a number"),
    ],
)
def test_what_is_typed_wrongly_is_refused(here: Here, words: tuple[str, ...], says: str) -> None:
    for name in ("x", "y"):
        here.ended(name)
    code, out, err = here.run("wait", *words)
    assert (code, out) == (2, "") and says in err

"""What is no prompt of a shell or an interpreter is not idle, whatever its last characters are."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.terminal.support import Stage, connected, until
from treadle.io.files import read_if_there
from treadle.terminal.places import Place

RAW = "import os, sys, tty; tty.setraw(0); os.write(1, {!r}.encode()); os.read(0, 1)"
MENU = RAW.format("Pick one:\r\n  red\r\n> blue\r\n> ")
FULL = RAW.format("\x1b[?1049h\x1b[2J\x1b[Hlines 1-3 (END)$ ")
NO_PROMPTS: dict[str, tuple[str, str]] = {
    # name: (what a shell runs, what is then seen)
    "less at its end": ("less FILE", "(END)"),
    "less without the second screen": ("less -X FILE", "(END)"),
    "less with a prompt like a shell's": ("less -X '-Ps$ ' FILE", "two"),
    "more": ("more -d FILE LONG", "More"),
    "man": ("MANPAGER=less man -l FILE.1", "(END)"),
    "vim": ("vim -u NONE FILE", "two"),
    "ed": ("ed -p '> ' FILE", "> "),
    "top": ("top", "load average"),
    "a script that asks for a name": ("bash -c 'read -p \"name> \" x'", "name> "),
    "a script that asks for a password": ("bash -c 'read -s -p \"pass> \" x'", "pass> "),
    "a menu of bash": ("bash -c 'PS3=\"choose> \"; select x in red blue; do :; done'", "choose> "),
    "a question in Japanese": ("bash -c 'read -p \"続けますか？\" x'", "続けますか？"),
    "a menu that reads keys": (f"{sys.executable} -c {MENU!r}", "blue"),
    "a program on the second screen": (f"{sys.executable} -c {FULL!r}", "(END)"),
    "a shell on the second screen": ("env PS1='\\e[?1049hfull$ ' bash --norc -i", "full$"),
    "a password for Python": (f"{sys.executable} -c 'import getpass; getpass.getpass(\"key> \")'", "key> "),
    "a line that Python reads": (f"{sys.executable} -c 'input(\"name> \")'", "name> "),
    "cat": ("sh -c 'printf \"> \"; cat'", "> "),
}
NESTED = {"python": ("python3 -q", ">>>"), "sqlite3": ("sqlite3", "sqlite>"), "a shell": ("PS1='in$ ' sh -i", "in$")}
PROMPTS = {
    "bash": (["bash", "--norc", "-i"], "bash-"),
    "dash": (["dash", "-i"], ""),
    "zsh": (["zsh", "-f", "-i"], ""),
    "python": ([sys.executable, "-q"], ">>>"),
    "sqlite3": (["sqlite3"], "sqlite>"),
    "gdb": (["gdb", "-q", "-nx"], "(gdb)"),
    "node": (["node"], ">"),
}


def settled(place: Place, shown: str) -> str:
    """The state, once this is in the output and the program has had time to be taken for idle."""
    until(lambda: shown.encode() in (read_if_there(place.out) or b""), shown)
    with connected(place) as client:
        until(lambda: (found := client.detail())["idle_ms"] > 700 and not found["state"]["settling"])
        return str(client.detail()["state"]["name"])


def needs(command: str) -> None:
    if not shutil.which(command):
        pytest.skip(f"there is no {command}")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "FILE").write_text("one\ntwo\n")
    (tmp_path / "FILE.1").write_text(".TH X 1\n.SH NAME\nx\n")
    (tmp_path / "LONG").write_text("line\n" * 200)
    return tmp_path


QUICK = ("less at its end", "vim", "a script that asks for a password", "a menu of bash", "a line that Python reads")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NO_PROMPTS]
)
def test_what_asks_or_shows_something_is_not_idle(stage: Stage, files: Path, name: str) -> None:
    line, shown = NO_PROMPTS[name]
    needs(line.split("=")[-1].split()[0] if "=" in line.split()[0] else line.split()[0])
    alone = stage.start("sh", "-c", f"exec env {line}", workdir=str(files), cols=80, rows=24)
    assert settled(alone, shown) != "idle"
    inside = stage.start("bash", "--norc", "-i", workdir=str(files), cols=80, rows=24)
    with connected(inside) as client:
        until(lambda: client.detail()["state"]["name"] == "idle")
        client.input(f"clear; {line}\n".encode())
    assert settled(inside, shown) != "idle"


@pytest.mark.parametrize("name", NESTED)
def test_a_program_that_a_shell_has_started_is_not_that_shell(stage: Stage, name: str) -> None:
    line, shown = NESTED[name]
    needs(line.split()[-2 if "=" in line else 0])
    place = stage.start("bash", "--norc", "-i", cols=80, rows=24)
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "idle")
        client.input(f"{line}\n".encode())
        assert settled(place, shown) == "unknown"
        client.input(b"\x04")
        until(lambda: client.detail()["state"]["name"] == "idle", "the shell's own prompt")


@pytest.mark.parametrize("name", PROMPTS)
def test_a_shell_or_an_interpreter_at_its_prompt_is_idle(stage: Stage, name: str) -> None:
    command, shown = PROMPTS[name]
    needs(command[0])
    assert settled(stage.start(*command, cols=80, rows=24), shown) == "idle"

"""`treadle completion`, and what the shells themselves make of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.chat.terminal import ChatTerminal
from tests.conftest import need
from treadle.agent.transcript import Transcript, TurnBegan
from treadle.cli.help import completion
from treadle.terminal.places import default_directory

BIN = str(Path(sys.executable).parent)
BASH = """source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); name=${1//-/_}; _${name}_completion "$1" 2>&1
printf '%s\\n' "${COMPREPLY[@]}" """
Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in ("bash", "zsh", "fish"):
        (folder / shell).write_text(CliRunner().invoke(completion, [shell]).output)
    return folder


@pytest.fixture(params=["bash", "fish"])
def complete(request: pytest.FixtureRequest, scripts: Path, state_home: Path) -> Complete:
    """What the shell offers for the last of these words."""
    shell: str = request.param
    need(shell)

    def offered(*words: str) -> list[str]:
        if shell == "bash":
            argv = ["bash", "-c", BASH, str(scripts / "bash"), *words]
        else:
            line = " ".join(words).replace("'", "\\'")
            argv = ["fish", "--no-config", "-c", f"source {scripts / 'fish'}; complete -C '{line}'"]
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(scripts)}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
        return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]

    return offered


def test_commands_and_their_subcommands_are_offered(complete: Complete) -> None:
    assert complete("treadle", "sess") == ["sessions"] and {"send", "sessions"} <= set(complete("treadle", "se"))
    assert set(complete("treadle", "sessions", "")) >= {"show", "export", "rm"}
    assert {"reap", "release"} <= set(complete("heimdall-claim", "re"))
    assert "claim" in complete("treadle", "coord", "cl")


def test_what_exists_now_is_offered(complete: Complete) -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="abc-1")
    transcript.append(TurnBegan(turn="t", prompt="hello; rm -rf $HOME"))
    transcript.close()
    assert complete("treadle", "sessions", "show", "ab") == complete("treadle", "--resume", "ab") == ["abc-1"]
    assert "one-shot" in complete("treadle", "docs", "one")
    Path(default_directory()).mkdir(mode=0o700, parents=True)
    Path(default_directory(), "loom.pid").touch()
    assert complete("treadle", "send", "lo") == ["loom"]


@pytest.mark.slow
def test_zsh_completes_with_descriptions(scripts: Path, tmp_path: Path, state_home: Path) -> None:
    need("zsh")
    (tmp_path / ".zshrc").write_text(
        f"PS1='%% '; autoload -U compinit; compinit -u -D; source {scripts / 'zsh'}; print ready\n"
    )
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "ZDOTDIR": str(tmp_path), "TERM": "xterm"}
    zsh = shutil.which("zsh") or "zsh"
    with ChatTerminal([zsh, "-i"], tmp_path, env) as terminal:
        terminal.until("ready\n")
        terminal.keys("treadle se\t")
        terminal.until("(?s)sessions +-- List, show, export.*send +-- Type into a terminal")
        terminal.keys("ssions export --for\tma\t")
        terminal.until("treadle sessions export --format markdown")
        terminal.keys("\x15treadle docs one\t")
        terminal.until("treadle docs one-shot")


def offered(*words: str) -> list[str]:
    """What zsh is told: word and description in turn."""
    env = {**os.environ, "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    argv = [f"{BIN}/treadle"]
    done = subprocess.run(argv, env={**env, "_TREADLE_COMPLETE": "zsh_complete"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    return [text for at in range(0, len(lines) - 2, 3) for text in lines[at + 1 : at + 3]]


def test_a_list_that_cannot_be_made_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_HOME", "/dev/null/x")
    assert offered("treadle", "sessions", "show", "") == offered("treadle", "fleet", "show", "") == []


def test_only_so_many_sessions_are_offered_each_in_one_line_that_cannot_act_on_the_terminal() -> None:
    Transcript.create(cwd="/x", model="m", session_id="empty").close()
    for number in range(101):
        name = "mine" if number == 100 else None
        transcript = Transcript.create(cwd="/x", model="m", session_id=f"s{number:03}", name=name)
        transcript.append(TurnBegan(turn="t", prompt="one\ntwo\tthree\x1b[2J" + "p" * 70))
        transcript.close()
    rows = offered("treadle", "sessions", "show", "")
    assert len(rows) == 200 and "empty" not in rows and rows[rows.index("s100") + 1] == "mine"
    said = "one two three\N{REPLACEMENT CHARACTER}[2J"
    assert rows[rows.index("s099") + 1] == said + "p" * (60 - len(said))

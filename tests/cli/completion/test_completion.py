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
from treadle.cli.help import LISTS, CommandWords, Option, choices, completion, every, rows, script

BIN = str(Path(sys.executable).parent)
BASH = """source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _treadle; printf '%s\\n' "${COMPREPLY[@]}" """
Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in ("bash", "zsh", "fish"):
        (folder / shell).write_text(script(shell, every()))
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
    assert set(complete("treadle", "sessions", "")) >= {"show", "export", "search", "rm"}
    assert {"reap", "release"} <= set(complete("heimdall-claim", "re"))
    assert "claim" in complete("treadle", "coord", "cl")


def test_options_are_those_of_the_command(complete: Complete) -> None:
    assert complete("treadle", "sessions", "rm", "--old") == ["--older-than"]
    assert "--task" in complete("treadle", "coord", "claim", "--t")
    assert "--resume" in complete("treadle", "--res")
    assert complete("treadle", "ls", "--older") == []


def test_values_are_offered_where_they_are_known(complete: Complete) -> None:
    assert sorted(complete("treadle", "sessions", "export", "--format", "")) == ["html", "json", "markdown"]
    assert "claude" in complete("treadle", "--agent", "cl")


def test_what_exists_now_is_offered(complete: Complete) -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="abc-1")
    transcript.append(TurnBegan(turn="t", prompt="hello; rm -rf $HOME"))
    transcript.close()
    assert complete("treadle", "sessions", "show", "ab") == ["abc-1"]
    assert "one-shot" in complete("treadle", "docs", "one")


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
        terminal.until("(?s)send +-- Type into a terminal.*sessions +-- Saved sessions")
        terminal.keys("ssions export --for\tma\t")
        terminal.until("treadle sessions export --format markdown")
        terminal.keys("\x15treadle docs one\t")
        terminal.until("treadle docs one-shot")


COMMANDS = [
    CommandWords(
        path=("x",),
        summary="the program",
        options=(
            Option(("-f", "--form"), "[a|b-c]", "It's a form"),
            Option(("--agent",), "NAME", "Who"),
            Option(("--out",), "FILE", ""),
            Option(("--json",), "", "For programs"),
            Option(("--one",), "[a]", ""),
        ),
        commands=("y", "gone"),
    ),
    CommandWords(path=("x", "y"), summary="it's \\ below", words="orders"),
]


def test_values_are_known_where_the_help_lists_all_of_them() -> None:
    assert [choices(option) for option in COMMANDS[0].options] == [["a", "b-c"], [], [], [], []]


def test_a_script_has_each_command_with_its_options_values_and_words() -> None:
    cases = script("bash", COMMANDS).partition('case "$1" in\n')[2].partition("\n  esac")[0]
    assert cases == (
        '    "x")\n      commands="y gone" options="-f --form --agent --out --json --one"'
        ' valued="-f --form --agent --out --one" choices="-f=a,b-c --form=a,b-c" words="" ;;\n'
        '    "x y")\n      commands="" options="" valued="" choices="" words="orders" ;;'
    )
    assert script("bash", COMMANDS).endswith("complete -o default -F _treadle x\n")
    zsh = script("zsh", COMMANDS)
    assert zsh.startswith("#compdef x\n") and "commands=('y:it'\\''s \\ below' 'gone:')" in zsh
    assert "choices=(-f=a,b-c --form=a,b-c) kind= ;;" in zsh and "kind=orders ;;" in zsh
    assert "valued=(-f --form --agent --out --one)\n" in zsh and "'--json:For programs'" in zsh
    lines = [line for line in script("fish", COMMANDS).splitlines() if line.startswith("complete ")]
    here, below = "complete -c x -n \"__treadle_at 'x'\"", "complete -c x -n \"__treadle_at 'x y'\""
    assert lines == [
        f"{here} -f -a y -d 'it'\\''s \\\\ below'",
        f"{here} -f -a gone -d ''",
        f"{here} -s f -l form -x -a 'a b-c' -d 'It'\\''s a form'",
        f"{here} -l agent -x -a '(__treadle_list agents)' -d 'Who'",
        f"{here} -l out -r",
        f"{here} -l json -d 'For programs'",
        f"{here} -l one -r",
        f"{below} -f -a '(__treadle_list orders)'",
    ]
    assert "set -g __treadle_paths 'x y'\n" in script("fish", COMMANDS)


def test_a_list_that_cannot_be_made_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_HOME", "/dev/null/x")
    result = CliRunner().invoke(completion, ["--list", "sessions"])
    assert result.exit_code == 0 and result.output == ""


def test_each_list_is_words_with_what_they_are() -> None:
    for kind in LISTS:
        assert all(line.count("\t") == 1 for line in rows(kind).splitlines())
    assert "native\tagent\n" in rows("agents") and "plan\t\n" in rows("modes") and rows("terminals") == ""


def test_what_was_said_cannot_break_a_line_or_act_on_the_terminal() -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="abc")
    transcript.append(TurnBegan(turn="t", prompt="one\ntwo\tthree\x1b[2J"))
    transcript.close()
    Transcript.create(cwd="/x", model="m", session_id="empty").close()
    assert rows("sessions") == "abc\tone two three\N{REPLACEMENT CHARACTER}[2J\n"


def test_only_so_many_sessions_are_offered_and_a_name_before_its_prompt() -> None:
    for number in range(101):
        transcript = Transcript.create(
            cwd="/x", model="m", session_id=f"s{number:03}", name="mine" if number == 100 else None
        )
        transcript.append(TurnBegan(turn="t", prompt="p" * 70))
        transcript.close()
    lines = rows("sessions").splitlines()
    assert len(lines) == 100 and "s100\tmine" in lines and f"s099\t{'p' * 60}" in lines


def test_a_list_is_printed_for_the_scripts_and_they_alone_ask_for_it() -> None:
    listed = CliRunner().invoke(completion, ["--list", "shells"])
    assert listed.output == "bash\t\nzsh\t\nfish\t\n" and rows("orders") == ""
    assert "acp:\tagent\n" in rows("agents") and "a2a:\tagent\n" in rows("agents")
    assert "one-shot\tOne-shot runs" in rows("pages")
    script = CliRunner().invoke(completion, ["fish"]).output
    assert script.startswith("# Completion of treadle for fish") and not script.endswith("\n\n")

"""A text is read from every agent's input box as it was typed, at any width, and submitted once; what the printed hints
say works; a box in another mode is no place for a prompt."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal.conftest import shell
from tests.cli.terminal.shells import Shell
from tests.terminal.boxed_agent import BOXES, TITLES, TRANSCRIPTS, shown, transcript
from tests.terminal.support import until
from treadle.terminal import judge
from treadle.terminal.detectors import named
from treadle.terminal.detectors.table import Detector
from treadle.terminal.states import AT_WORK

__all__ = ["shell"]

TEXTS = [
    "tidy up",
    "refactor the parser so that it reads several lines, and then run all of the tests in the repository again",
    "three\nshort\nlines",
    "first a paragraph\n\nthen another one after an empty line",
    "def f(x):\n    if x:\n        return 1\n    return 2",
    "日本語の長い文章を入力しても正しく読み取れることを確かめる。これはとても大切です。",
    "# A heading\n\n- one\n- two `code`\n\n> a quotation",
    "see docs · /srv/work and ~/notes · …/deep",
    "x" * 190,
    "one word after the other " * 30,
]
OPENINGS = ("", "/", "#", "@", "- ", "> ", "1. ", "`ls` ", "* ", "? ")
PROMPTS = [opening + text for opening in OPENINGS for text in TEXTS]
WIDTHS = (40, 80, 200)


def table(agent: str) -> Detector:
    return named(agent.partition(" ")[0])


@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("agent", BOXES)
def test_a_box_holds_exactly_the_text_that_was_typed(agent: str, cols: int) -> None:
    """Or it is refused before anything is typed: it could not be told from a menu."""
    for text in PROMPTS:
        if judge.like_a_menu(table(agent), text.encode()):
            assert text.startswith("1. ")
            continue
        found = judge.content(table(agent), shown(agent, text, cols))
        assert judge.holds(found, text.encode()), (text, found)
        assert not judge.mode(table(agent), shown(agent, text, cols)) or text[0] in "#!", text
        lost = text[1:] if text[0] in "/@" and len(text) < 150 else "y" + text
        for other in (f"x{text}", f"{text} more", text[:-2] if len(text) < 150 else "y" + text, lost):
            assert not judge.holds(judge.content(table(agent), shown(agent, other, cols)), text.encode()), (text, other)


SPINNERS = (
    "🌑",
    "⠋ Working... (esc to cancel, 3s)",
    "✻ Thinking… (3s · thinking)",
    "• Working (3s • esc to interrupt)",
)
SPINNERS += ("◐ Working · esc to interrupt", "esc interrupt", "⊶ Shell")
QUOTING = [
    f"{before}{spinner} and the rest of it"
    for before in ("look:\n", "word " * 7, "x" * 190 + "\n")
    for spinner in SPINNERS
]


@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("agent", TRANSCRIPTS)
def test_an_agents_spinner_in_a_prompt_or_an_answer_is_no_sign_of_work(agent: str, cols: int) -> None:
    for text in QUOTING:
        for prompt, answer in ((text, "Done."), ("look", text), (text, text)):
            lines = [*transcript(agent, prompt, answer, cols), *shown(agent, "", cols)]
            assert judge.judge(table(agent), judge.Evidence(lines, TITLES.get(agent, ""))).state == "idle", lines


def test_a_footer_that_is_too_narrow_for_its_words_says_that_it_works() -> None:
    footer = ["   ⬝⬝■■■■■■  esc 125 (0%) · ctrl+p", "             inter          commands", "             rupt"]
    lines = [*shown("opencode", "", 40)[:-1], *footer]
    assert judge.judge(named("opencode"), judge.Evidence(lines)).state in AT_WORK


@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("agent", [agent for agent in BOXES if agent != "pi"])
def test_a_box_in_its_shell_mode_says_so(agent: str, cols: int) -> None:
    for text in ("", "touch x", "three\nshort\nlines"):
        assert judge.mode(table(agent), shown(agent, text, cols, "!")) == "shell"
        assert judge.mode(table(agent), shown(agent, text, cols)) == ""


@pytest.fixture
def boxed(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Starts an agent that has nothing but its input box. Returns the log of what it was given."""
    monkeypatch.setenv("TREADLE_SUBMIT_SECONDS", "2")

    def start(agent: str, cols: int = 80, lost: int = 0) -> Path:
        program, log = tmp_path / agent, tmp_path / "given"
        log.touch()
        where = f"PYTHONPATH={os.pathsep.join(sys.path)}"
        command = f"{sys.executable} -m tests.terminal.boxed_agent {agent} {log} {lost}"
        program.write_text(f"#!/bin/sh\nexec env {shlex.quote(where)} {command}\n")
        program.chmod(0o700)
        shell("run", "--detach", "--id", "x", "--cols", str(cols), "--rows", "40", "--", str(program))
        shell("wait", "x", "--state", "idle", "--timeout", "50")
        return log

    return start


def given(log: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_prompt_is_taken_exactly_at_any_width(
    shell: Shell, boxed: Callable[..., Path], agent: str, cols: int
) -> None:
    log = boxed(agent, cols)
    for text in TEXTS:
        shell("send", "x", text, "--wait", "--timeout", "50")
    assert given(log) == [{"prompt": text} for text in TEXTS]


def test_a_wrapped_prompt_is_taken_by_a_narrow_box_without_edges(shell: Shell, boxed: Callable[..., Path]) -> None:
    log = boxed("codex", 40)
    shell("send", "x", TEXTS[1], "--wait", "--timeout", "50")
    assert given(log) == [{"prompt": TEXTS[1]}]


@pytest.mark.parametrize("how", ["--enter", "--wait"])
def test_a_prompt_is_not_run_as_a_shell_command(shell: Shell, boxed: Callable[..., Path], how: str) -> None:
    log = boxed("claude")
    done = shell.run("send", "x", "!touch y", how)
    assert done.returncode == 3 and "as a shell command" in done.stderr
    shell("send", "x", "!")
    done = shell.run("send", "x", "touch y", how)
    assert done.returncode == 3 and "in its shell mode" in done.stderr and "--replace leaves that mode" in done.stderr
    assert "mode:    shell\n" in shell("status", "x")
    assert shell.run("send", "x", "--enter").returncode == 3
    shell("send", "x", "touch y", how, "--replace", "--timeout", "50")
    assert given(log) == [{"prompt": "touch y"}]


HINTS = [
    (1, "send x tidy --enter", 4, "treadle send x --enter", ["tidy"]),
    (1, "send x tidy --enter", 4, "treadle send x --replace TEXT", ["TEXT"]),
    (0, "send x tidy", 0, "", []),
    (0, "send x tidy; send x more --enter", 3, "treadle send x --enter", ["tidy"]),
    (0, "send x tidy; send x more --enter", 3, "--replace", ["more"]),
    (0, "send x !; send x more --enter", 3, "--replace", ["more"]),
    (0, "send x !; send x more --enter", 3, "--anyway", []),
    (0, "send x !more --enter", 3, "--anyway", []),
    (0, "send x 1. more --enter", 3, "--anyway", ["1. more"]),
    (0, "send x 1. more --when-idle", 3, "", []),
]


@pytest.mark.parametrize(
    ("lost", "words", "code", "hint", "prompts"),
    [*HINTS[::2], *(pytest.param(*each, marks=pytest.mark.slow) for each in HINTS[1::2])],
)
def test_what_a_refused_send_advises_works(
    shell: Shell, boxed: Callable[..., Path], lost: int, words: str, code: int, hint: str, prompts: list[str]
) -> None:
    log = boxed("claude", lost=lost)
    for command in words.split("; "):
        done = shell.run(*command.split())
    assert done.returncode == code and hint in done.stderr
    if hint.startswith("treadle"):
        shell(*hint.split()[1:])
    elif hint:
        shell(*command.split(), hint)
    until(lambda: [one["prompt"] for one in given(log) if "prompt" in one] == prompts)  # --anyway does not wait for it

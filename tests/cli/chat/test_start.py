"""How a chat begins."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.waiting import until
from tests.workspace.repositories import make
from treadle import __version__
from treadle.agent.messages import UserMessage
from treadle.agent.transcript import MessageRecord, Transcript, TurnBegan
from treadle.cli.chat.command import Lines, _branch, _greeting, _leave, _signals, _theme
from treadle.cli.chat.page import Page
from treadle.cli.chat.talk import Status, Talk
from treadle.session import AgentInfo, SessionSpec, Start
from treadle.testing.sessions import ScriptedSession


def test_a_terminal_that_only_knows_lines_gets_lines(chat: Callable[..., ChatTerminal]) -> None:
    terminal = chat(TERM="dumb")
    terminal.say("still there?")
    terminal.until("Yes, I am.")
    assert b"\x1b" not in terminal.raw


def test_a_prompt_on_the_command_line_is_the_first_one(chat: Callable[..., ChatTerminal]) -> None:
    terminal = chat("chat", "still there?")
    terminal.until("(?s)> still there.*Yes, I am.")
    terminal.ready()
    terminal.say("/model")
    terminal.until("Which model")


@pytest.mark.parametrize(
    ("wanted", "colours", "theme"),
    [
        ("light", "15;0", "light"),
        ("dark", "0;15", "dark"),
        ("auto", "0;15", "light"),
        ("auto", "0;default;7", "light"),
        ("auto", "15;0", "dark"),
        ("auto", "", "dark"),
    ],
)
def test_the_theme_is_the_one_that_was_asked_for_or_fits_the_terminal(
    wanted: str, colours: str, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", colours)
    assert _theme(wanted) == theme


def opened(cwd: Path, id: str = "", **info: Any) -> ScriptedSession:
    session = ScriptedSession(SessionSpec(cwd=str(cwd), start=Start(id=id) if id else Start()), [])
    session._info = AgentInfo(**{"name": "x", **info})
    return session


def test_the_greeting_names_agent_model_place_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    page = Page(lambda: 200, colour=False)
    spec = SessionSpec(cwd=str(tmp_path / "w"))
    title, keys, *rest = _greeting(opened(tmp_path), spec, page, "Esc").splitlines()
    assert title == f"treadle {__version__} · x · its own model · ~/w"
    assert keys == "Esc interrupts, Ctrl-D leaves, /help lists commands, ? shows the keys." and rest[-1] == ""
    assert " · x · a, b · " in _greeting(opened(tmp_path, models=("a", "b")), spec, page, "Esc")
    kept = Transcript.create(cwd=str(tmp_path), model="m")
    kept.append(MessageRecord(turn="t", message=UserMessage(text="before")), sync=True)
    kept.close()
    resumed = SessionSpec(cwd=str(tmp_path), start=Start(resume=kept.header.id))
    assert "> before" in _greeting(opened(tmp_path, kept.header.id), resumed, page, "Esc")
    assert "> before" not in _greeting(opened(tmp_path, kept.header.id), spec, page, "Esc")


def talk_of(session: ScriptedSession, cwd: Path) -> Talk:
    return Talk(session, Lines(), Page(lambda: 80, colour=False), Status(session), str(cwd))


async def test_leaving_says_how_to_go_on_unless_there_is_nothing_to_go_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ends(error: BaseException | None = None) -> None:
        if error:
            raise error

    async def over(error: BaseException | None = None) -> "asyncio.Task[None]":
        task = asyncio.create_task(ends(error))
        await asyncio.wait([task])
        return task

    other = talk_of(opened(tmp_path, "s1"), tmp_path)
    assert _leave(await over(), other, "my agent", []) == 0
    assert capsys.readouterr().out == "\nsession s1 is kept: treadle --agent 'my agent' --resume s1\n"
    empty, spoken = (Transcript.create(cwd=str(tmp_path), model="m") for _ in range(2))
    spoken.append(TurnBegan(turn="t", prompt="hello"), sync=True)
    for transcript in (empty, spoken):
        transcript.close()
    assert _leave(await over(), talk_of(opened(tmp_path, empty.header.id), tmp_path), "native", []) == 0
    assert capsys.readouterr().out == ""
    assert _leave(await over(), talk_of(opened(tmp_path, spoken.header.id), tmp_path), "native", []) == 0
    kept = spoken.header.id
    assert capsys.readouterr().out == f"\nsession {kept} is kept: treadle --resume {kept}\n"
    assert _leave(await over(), other, "x", [15]) == 1 and _leave(await over(OSError("gone")), other, "x", []) == 1
    cancelled = asyncio.create_task(asyncio.Event().wait())
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert _leave(cancelled, other, "x", []) == 1  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError):
        _leave(await over(ValueError("ours")), other, "x", [])


async def test_a_signal_ends_the_talk_and_ctrl_c_only_interrupts(capsys: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.get_running_loop()
    pressed: list[bool] = []

    def interrupt() -> bool:
        pressed.append(True)
        return len(pressed) > 1

    talking = asyncio.create_task(asyncio.Event().wait())
    try:
        came = _signals(talking, interrupt)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: pressed == [True])
        assert capsys.readouterr().out == "\n(Ctrl-D or /exit leaves)\n> "
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: len(pressed) == 2)
        assert capsys.readouterr().out == "" and came == [] and not talking.cancelled()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait([talking])
        assert talking.cancelled() and came == [signal.SIGHUP]
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: came == [signal.SIGHUP, signal.SIGTERM])
    finally:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            loop.remove_signal_handler(number)


def test_the_branch_is_named_where_there_is_one_and_a_detached_commit_is_none(tmp_path: Path) -> None:
    assert _branch(str(tmp_path)) == ""
    repository = make(tmp_path / "r")
    assert _branch(repository.top) == "main"
    repository.git("checkout", "-q", "--detach")
    assert _branch(repository.top) == ""

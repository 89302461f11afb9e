"""Commands of the person's own."""

import asyncio
from pathlib import Path

import pytest

from tests.waiting import until
from treadle.cli.chat.talk import REPORTED_BYTES, own_command


async def test_the_agent_is_told_what_was_shown(tmp_path: Path) -> None:
    shown: list[str] = []
    ran = await own_command("echo out; echo err >&2; pwd; exit 3", str(tmp_path), shown.append)
    assert (
        ran.code == 3
        and "".join(shown) == f"out\nerr\n{tmp_path}\n"
        and ran.report == f"out\nerr\n{tmp_path}\n\n(exit code 3)"
    )


async def test_lines_are_shown_whole_however_they_come(tmp_path: Path) -> None:
    shown: list[str] = []
    await own_command("printf 'one '; sleep 0.05; printf 'line\\nand a rest'", str(tmp_path), shown.append)
    assert shown == ["one line\n", "and a rest\n"]


async def test_of_a_long_output_the_agent_is_told_the_end(tmp_path: Path) -> None:
    told = (await own_command("seq 100000", str(tmp_path), lambda text: None)).report
    assert told.endswith("100000\n") and len(told) <= 2 * REPORTED_BYTES


async def test_cancelling_ends_the_command(tmp_path: Path, mark: str) -> None:
    shown: list[str] = []
    running = asyncio.create_task(own_command("echo begun; sleep 600", str(tmp_path), shown.append))
    await until(lambda: shown)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


async def test_the_persons_own_shell_runs_it_or_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setenv("SHELL", "/bin/echo")
    assert (await own_command("echo hi", str(tmp_path), shown.append)).report == "-c echo hi\n"
    monkeypatch.setenv("SHELL", "")
    assert (await own_command("echo hi", str(tmp_path), shown.append)).report == "hi\n"
    assert shown == ["-c echo hi\n", "hi\n"]

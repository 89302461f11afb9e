"""What is shown: text of agents made fit for a terminal, `--json`, and the lines of `TREADLE_LOG`."""

import asyncio
import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.installed import treadle
from tests.scripts import calls, says
from treadle.agent.providers.script import parse
from treadle.cli import logs
from treadle.cli.render import colourful
from treadle.errors import ConfigError
from treadle.testing.server import ModelServer


def test_only_a_terminal_that_can_and_may_show_colours_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert colourful(Terminal()) and not colourful(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert colourful(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not colourful(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colourful(Terminal())


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    yield
    logs.set_up("")
    logging.getLogger("treadle").propagate = True


def test_lines_are_json_with_ids_and_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logs.set_up(f"info:{path}")
    logging.getLogger("treadle.x").info("key is sk-ant-api03-%s", "a" * 40, extra={"session": "s1"})
    try:
        raise ValueError("oops")
    except ValueError:
        logging.getLogger("treadle.x").exception("it broke")
    logging.getLogger("treadle.x").debug("not this")
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["session"] == "s1" and first["level"] == "info" and "a" * 40 not in first["message"]
    assert "ValueError: oops" in second["traceback"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("wanted", ["loud", "info:/nowhere/at/all"])
def test_a_wrong_value_says_what_to_write(wanted: str) -> None:
    with pytest.raises(ConfigError, match="TREADLE_LOG"):
        logs.set_up(wanted)


async def test_a_run_writes_what_a_bug_report_needs_and_no_words_of_anybody(tmp_path: Path) -> None:
    """Starts, requests, tries, decisions, exits."""
    script = parse(
        '[[reply]]\nerror = {status = 529, message = "too busy"}\n'
        + calls("bash", {"command": "echo private words"}, when="hello")
        + calls("bash", {"command": "touch it"}, when="private")
        + says("private answer", times="always")
    )
    path = tmp_path / "log"
    async with ModelServer(script) as server:
        env = {
            **os.environ,
            "TREADLE_LOG": f"debug:{path}",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "k1",
        }
        command = ["-p", "hello", "--model", "anthropic", "--allowed-tools", "Bash(echo *)"]
        done = await asyncio.to_thread(treadle, *command, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    told = "\n".join(line["message"] for line in lines)
    for words in (
        "begins: -p",
        "request: POST http",
        "answer: status 529",
        "try 1 failed",
        "tool bash started",
        "started ",
        "ended with exit code 0",
        "tool bash denied by nobody",
        "turn ended as completed",
        "session closed",
        "ends with 0",
    ):
        assert words in told, told
    assert "private" not in told and "k1" not in told
    assert any(line.get("session") and line.get("turn") for line in lines)

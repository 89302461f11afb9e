"""The first minute: what `treadle` does when the person has chosen neither a model nor an agent."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.cli.choosing.chosen import once
from tests.installed import treadle
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer

SERVED = parse('model = "loom-1"\n[[reply]]\ntext = "I heard."\ntimes = "always"\n')


async def served(server: ModelServer, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(once, {**env, "TREADLE_BASE_URL": f"{server.url}/v1"}, *arguments)


async def test_in_a_pipe_the_only_thing_found_is_used_and_named(bare: dict[str, str]) -> None:
    async with ModelServer(SERVED) as server:
        done = await served(server, bare)
    assert (done.returncode, done.stdout) == (0, "I heard.\n")
    assert (
        "using chat:loom-1: the server at" in done.stderr and "`treadle models use chat:loom-1` keeps it" in done.stderr
    )


def test_in_a_pipe_nothing_found_is_one_line_or_one_record(bare: dict[str, str]) -> None:
    done = once(bare)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("treadle: No model is configured")
    for form in ("json", "stream-json"):
        done = once(bare, "--output-format", form)
        record = json.loads(done.stdout)
        assert done.returncode == 2 and record["is_error"] and record["error_code"] == "no_model"
        assert "No model is configured" in record["errors"][0]


@pytest.mark.parametrize(
    "arguments", [["--output-format=json", "--nonsense"], ["--output-format", "json", "-r", "gone"]]
)
def test_a_run_that_cannot_begin_is_json_where_json_was_asked_for(
    bare: dict[str, str], script: Path, arguments: list[str]
) -> None:
    done = once({**bare, "TREADLE_MODEL": f"scripted:{script}"}, *arguments)
    assert done.returncode == 1 and json.loads(done.stdout)["subtype"] == "error"
    assert done.stderr.startswith("treadle: ")


def test_at_a_terminal_nothing_found_says_what_to_type_and_can_be_left(terminal: Callable[..., ChatTerminal]) -> None:
    chat = terminal()
    seen = chat.until(r"\[l/q\]")
    for words in ("export ANTHROPIC_API_KEY=", "npm install", "ollama serve", "1.1 GB to fetch"):
        assert words in seen
    chat.say("q")
    assert chat.ended() == 2


def test_a_prompt_alone_opens_a_chat_that_begins_with_it(terminal: Callable[..., ChatTerminal], script: Path) -> None:
    chat = terminal("are you there?", TREADLE_MODEL=f"scripted:{script}")
    assert "are you there?" in chat.until("I heard")


@pytest.fixture
def claude(tmp_path: Path, bare: dict[str, str]) -> Callable[..., dict[str, str]]:
    """An environment in which Claude Code has these settings of the user's."""
    place = tmp_path / "claude"
    place.mkdir()

    def write(**settings: Any) -> dict[str, str]:
        (place / "settings.json").write_text(json.dumps(settings))
        return {**bare, "CLAUDE_CONFIG_DIR": str(place)}

    return write


async def test_a_family_of_models_in_claude_codes_settings_is_asked_for(claude: Callable[..., dict[str, str]]) -> None:
    async with ModelServer(SERVED) as server:
        env = {**claude(model="opus"), "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        done = await asyncio.to_thread(once, env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "I heard.\n", "")
        env = {**env, **claude(model="opusplan")}
        done = await asyncio.to_thread(once, env)
    assert (done.returncode, done.stdout) == (0, "I heard.\n")
    first, second = done.stderr.splitlines()
    assert "settings.json: the model 'opusplan' of Claude Code cannot be used here" in first
    assert "using anthropic:claude" in second


def test_a_model_that_cannot_be_used_is_named_with_where_it_was_set(bare: dict[str, str]) -> None:
    done = once({**bare, "TREADLE_MODEL": "nonsense"})
    assert done.returncode == 1 and "'nonsense' (the model is set in TREADLE_MODEL)" in done.stderr


AGENT = [{"hooks": [{"type": "agent", "prompt": "x"}]}]


def test_a_hook_of_claude_code_that_cannot_be_run_stops_only_our_own_agent_and_only_if_it_might_forbid(
    claude: Callable[..., dict[str, str]], script: Path, agent: str
) -> None:
    env = {**claude(hooks={"Stop": AGENT}), "TREADLE_MODEL": f"scripted:{script}"}
    done = once(env)
    assert (done.returncode, done.stdout) == (0, "I heard.\n") and "a hook of Stop is of the type" in done.stderr
    claude(hooks={"PreToolUse": AGENT})
    done = once(env)
    assert done.returncode == 1 and "might forbid something" in done.stderr and "--setting-sources" in done.stderr
    assert once(env, "--setting-sources", "project").stdout == "I heard.\n"
    assert treadle("agents", "native", env=env).returncode == 0
    outside = {**bare_of(env), "TREADLE_AGENT": agent}
    assert "might forbid" not in once(outside).stderr


def bare_of(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name != "TREADLE_MODEL"}


def test_a_file_of_claude_code_that_allows_everything_is_named(
    claude: Callable[..., dict[str, str]], script: Path
) -> None:
    env = {**claude(permissions={"defaultMode": "bypassPermissions"}), "TREADLE_MODEL": f"scripted:{script}"}
    [line] = once(env).stderr.splitlines()
    assert "everything is allowed without a question" in line and "settings.json" in line
    assert once(env, "--permission-mode", "suggest").stderr == ""
    assert once(env, "--setting-sources", "project").stderr == ""

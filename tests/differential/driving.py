"""Drives one of the two programs through Claude's Python SDK, and keeps what was seen."""

import asyncio
import dataclasses
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk

from tests.drivers.programs import install
from tests.installed import TREADLE
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer

PATIENCE = 150.0
DONE = '[[reply]]\ntimes = "always"\ntext = "It is done."\nusage = { input = 30, output = 7, cache_read = 11 }\n'


def calling(name: str, /, **arguments: Any) -> str:
    """A reply that calls a tool; other replies follow."""
    given = json.dumps(json.dumps(arguments))
    usage = "usage = { input = 20, output = 5 }"
    return f'[[reply]]\ntext = "I call it."\n{usage}\n[[reply.call]]\nname = "{name}"\narguments = {given}\n'


class Seen:
    """What one program did."""

    def __init__(self, program: str, home: Path) -> None:
        self.program = program
        self.home = home
        self.work = home / "work"
        self.work.mkdir(parents=True)
        self.messages: list[Any] = []
        self.told: list[dict[str, Any]] = []
        """The requests that reached the model."""
        self.headers: list[dict[str, str]] = []
        """And their headers."""
        self.said: list[str] = []
        """Lines on stderr, and the words of an exception."""
        self.facts: dict[str, Any] = {}

    def place(self, files: dict[str, str]) -> None:
        """Write these files: those of `claude/` into the user's settings, the others into the workspace."""
        for name, text in files.items():
            path = self.home / name if name.startswith("claude/") else self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @property
    def result(self) -> Any:
        return next((one for one in reversed(self.messages) if isinstance(one, sdk.ResultMessage)), None)

    @property
    def init(self) -> dict[str, Any]:
        return next((one.data for one in self.messages if getattr(one, "subtype", "") == "init"), {})

    def of(self, kind: Any) -> list[Any]:
        return [one for one in self.messages if isinstance(one, kind)]

    def blocks(self, kind: Any) -> list[Any]:
        every = [one.content for one in self.messages if isinstance(one, sdk.AssistantMessage | sdk.UserMessage)]
        return [block for content in every if isinstance(content, list) for block in content if isinstance(block, kind)]

    @property
    def uses(self) -> list[str]:
        return [block.name for block in self.blocks(sdk.ToolUseBlock)]

    @property
    def failed(self) -> list[bool]:
        return [bool(block.is_error) for block in self.blocks(sdk.ToolResultBlock)]

    def reached(self, text: str) -> bool:
        """Whether the model read this."""
        return any(text in json.dumps(request, ensure_ascii=False) for request in self.told)

    @property
    def offered(self) -> list[str]:
        return [tool["name"] for tool in (self.told[0].get("tools") or [])] if self.told else []


Then = Callable[[Any, "Seen"], Awaitable[None]]


def program_of(name: str) -> str:
    return TREADLE if name == "treadle" else str(install("claude") / "claude")


def variables(seen: Seen, url: str) -> dict[str, str]:
    """The environment of either program; the host adds PATH and the like."""
    env = {
        "HOME": str(seen.home),
        "PATH": os.environ["PATH"],
        "CLAUDE_CONFIG_DIR": str(seen.home / "claude"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_AUTOUPDATER": "1",
    }
    if seen.program == "treadle":
        env |= {"TREADLE_HOME": str(seen.home / "treadle"), "TREADLE_MODEL": "anthropic:claude-opus-5-5"}
    return env


def options(seen: Seen, url: str, given: dict[str, Any]) -> sdk.ClaudeAgentOptions:
    more = {"cli_path": program_of(seen.program), "cwd": seen.work, "stderr": seen.said.append, **given}
    more["env"] = {**variables(seen, url), **given.get("env", {})}
    return sdk.ClaudeAgentOptions(**more)


async def drive(
    program: str,
    home: Path,
    script: str,
    *prompts: Any,
    files: dict[str, str] | None = None,
    then: Then | None = None,
    faults: Any = (),
    seen: Seen | None = None,
    **given: Any,
) -> Seen:
    """Run these prompts; `then` is called with the client while it is connected. `{work}` stands for the directory."""
    seen = seen or Seen(program, home)
    seen.place(files or {})
    async with ModelServer(parse(script.replace("{work}", str(seen.work))), faults=faults) as server:
        try:
            async with asyncio.timeout(PATIENCE):
                async with sdk.ClaudeSDKClient(options(seen, server.url, given)) as client:
                    for prompt in prompts if prompts or then is not None else ("go",):
                        await client.query(prompt)
                        seen.messages += [message async for message in client.receive_response()]
                    if then is not None:
                        await then(client, seen)
        except Exception as error:
            seen.said.append(f"{type(error).__name__}: {error}")
            seen.facts["raised"] = True
        seen.headers = [dict(request.headers) for request in server.asked]
        seen.told = [request.body for request in server.asked if isinstance(request.body, dict)]
    return seen


def fields(message: Any) -> set[str]:
    """The fields of a message of the SDK that send a message."""
    return {
        field.name
        for field in dataclasses.fields(message)
        if getattr(message, field.name) is not None and field.name != "data"
    }

"""What Claude's SDKs offer, read from their own types: options, hooks, control requests, messages, settings, flags.

The Python SDK is asked for its types; the TypeScript SDK's `sdk.d.ts`, which names more, is read as text; Claude Code
itself prints its flags. What a new version adds appears here without anyone writing it down.
"""

import dataclasses
import re
import subprocess
import typing
from functools import cache
from pathlib import Path

import claude_agent_sdk as sdk
from claude_agent_sdk import types

from tests.drivers.programs import CACHE, fetch, install
from tests.live.test_claude_sdk import SDK


@cache
def declarations() -> str:
    fetch("claude-sdk", SDK, "--omit=optional", "--ignore-scripts")
    return (CACHE / "claude-sdk" / "node_modules" / "@anthropic-ai" / "claude-agent-sdk" / "sdk.d.ts").read_text()


@cache
def claude() -> Path:
    return install("claude") / "claude"


def python_options() -> list[str]:
    return [field.name for field in dataclasses.fields(sdk.ClaudeAgentOptions)]


def hook_events() -> list[str]:
    line = re.search(r"HOOK_EVENTS: readonly \[(.*?)\]", declarations())
    return re.findall(r"'(\w+)'", line[1]) if line else []


def hook_inputs() -> dict[str, list[str]]:
    """By event, the fields of its input without those that every event has."""
    return {
        event: list(_fields(f"export declare type {event}HookInput = BaseHookInput & {{")) for event in hook_events()
    }


def python_hook_events() -> list[str]:
    return [typing.get_args(one)[0] for one in typing.get_args(types.HookEvent)]


def control_requests() -> dict[str, dict[str, str]]:
    """By subtype, the fields of the request and their types; `?` ends the name of one that may be missing."""
    found = {}
    for name in re.findall(r"^declare type (SDKControl\w+Request) = \{", declarations(), re.MULTILINE):
        fields = _fields(f"declare type {name} = {{")
        if "subtype" in fields:
            found[fields.pop("subtype").strip("';")] = fields
    return found


def messages() -> dict[str, dict[str, str]]:
    """By `type` or `type/subtype`, the fields of a message."""
    found: dict[str, dict[str, str]] = {}
    for name in re.findall(
        r"^export declare type (SDK\w+(?:Message|Event|Replay|Success|Error)) = \{", declarations(), re.MULTILINE
    ):
        fields = _fields(f"export declare type {name} = {{")
        kind = re.findall(r"'([\w]+)'", fields.get("type", ""))
        if kind:
            subtype = re.findall(r"'([\w]+)'", fields.get("subtype", ""))
            found["/".join((*kind, *subtype[:1]))] = fields
    return found


def settings() -> list[str]:
    return list(_fields("export declare interface Settings {"))


@cache
def flags() -> list[str]:
    told = subprocess.run([claude(), "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", told, re.MULTILINE)


def _fields(declaration: str) -> dict[str, str]:
    text = declarations()
    start = text.find(declaration)
    return _members(_block(text, start), 4) if start >= 0 else {}


def _block(text: str, start: int) -> str:
    """From the first brace to the one that closes it; braces in comments come in pairs."""
    depth, begin = 0, text.index("{", start)
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[begin : place + 1]
    return text[begin:]


def _members(block: str, indent: int) -> dict[str, str]:
    return dict(re.findall(rf"^ {{{indent}}}(\w+)\??: ([^\n]*)", block, re.MULTILINE))

"""Which commands there are, where each is found, and what they share: their arguments and how they print."""

import sys

from treadle.cli.arguments import Arguments as Arguments
from treadle.cli.arguments import Small, found
from treadle.cli.arguments import UsageError as UsageError
from treadle.cli.arguments import small as small

COMMANDS = {
    "validate": "check a typed message",
    "resolve": "short ids for artifacts",
    "capsule": "what was done, in at most ten lines",
    "brief": "what a spawned agent is told",
    "blackboard": "facts that are found out once",
    "ledger": "what every message and spawn cost",
    "gate": "a gate's report as a message",
    "claim": "who may change what",
    "haid": "who is who",
    "protocol": "set up, read the trail, measure the savings",
    "ledger-mcp": "all of it for any MCP client",
}

OF_TREADLE = {
    "setup": "have Claude Code, Codex, Gemini CLI, opencode or Cursor claim, and be bound by claims",
    "who": "who is here, on what, since when, who waits for whom",
    "hook": "what their hooks run before a tool call",
    "message": "typed messages between agents and people",
    "allow": "let an agent act against another's claim, once",
}
"""Commands that exist only under `treadle coord`."""


MODULES = {
    "resolve": "context",
    "capsule": "context",
    "blackboard": "context",
    "brief": "context",
    "validate": "messages",
    "message": "messages",
    "gate": "messages",
    "protocol": "ledger",
    "allow": "claim",
}
"""Commands that are in a module of another name."""


def out(text: str) -> None:
    """Print to standard output in UTF-8, whatever the locale. Input bytes that are not UTF-8 come out unchanged."""
    put(text + "\n")


def put(text: str) -> None:
    sys.stdout.buffer.write(_bytes(text))


def err(text: str) -> None:
    sys.stderr.buffer.write(_bytes(text) + b"\n")
    sys.stderr.buffer.flush()


def _bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def find(name: str) -> Small:
    name = name.replace("-", "_")
    return found(f"treadle.cli.heimdall.{MODULES.get(name, name)}", name)

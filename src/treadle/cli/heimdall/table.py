"""Which commands there are, where each is found, and what they share: their arguments and how they print."""

import sys

from treadle.cli.arguments import Arguments as Arguments
from treadle.cli.arguments import Small, found
from treadle.cli.arguments import UsageError as UsageError
from treadle.cli.arguments import small as small

COMMANDS = {
    "validate": "check a typed message",
    "resolve": "short ids for long texts",
    "capsule": "summaries of finished work, at most ten lines each",
    "brief": "the prompt of a spawned agent",
    "blackboard": "shared facts",
    "ledger": "token use of messages and spawns",
    "gate": "send a gate's report as a message",
    "claim": "reserve files",
    "haid": "agent identities",
    "protocol": "set up, read the log, measure the savings",
    "ledger-mcp": "an MCP server for all of this",
}

OF_TREADLE = {
    "setup": "make Claude Code, Codex, Gemini CLI, opencode or Cursor claim files and respect claims",
    "who": "active agents, their tasks, and who waits for whom",
    "hook": "the program behind these agents' hooks",
    "message": "typed messages between agents and people",
    "allow": "let an agent override another's claim once",
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

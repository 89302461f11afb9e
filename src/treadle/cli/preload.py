"""What a warm parent has loaded before anybody asks for a run or a worker."""

from __future__ import annotations

import importlib

MODULES = (
    "ssl",
    "truststore",
    "tree_sitter_bash",
    *(f"treadle.cli.{name}" for name in ("root", "oneshot", "given", "worker_entry", "serving", "options")),
    *(f"treadle.doors.{name}" for name in ("worker.door", "oneshot.input", "oneshot.run", "oneshot.verbose")),
    *(f"treadle.agent.{name}" for name in ("native", "loop", "mcp", "project", "repeats", "replay", "prompt")),
    *(f"treadle.agent.providers.{name}" for name in ("anthropic", "chat", "client", "http", "responses", "sse")),
    *(f"treadle.agent.providers.{name}" for name in ("scripted", "script")),
    *(f"treadle.coordination.{name}" for name in ("guard", "origin", "planning", "repository", "identity")),
    *(f"treadle.io.{name}" for name in ("http", "peer", "process.child", "sandbox.start", "sandbox.methods")),
    *(f"treadle.policy.{name}" for name in ("guess", "shell", "syntax")),
)


def preload() -> None:
    """Load it, and make what is the same in every run."""
    for name in MODULES:
        importlib.import_module(name)
    from treadle.agent.tools.registry import builtin

    builtin().schemas()

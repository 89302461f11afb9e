"""What a warm parent (`io.process.warm`) has loaded before anybody asks for anything, and what its copies do."""

from treadle.cli.warm import DECLINED

MODULES = (
    *("ssl", "truststore", "hashlib", "tomllib", "tree_sitter", "tree_sitter_bash", "concurrent.futures.thread"),
    *(f"treadle.cli.{name}" for name in ("root", "oneshot", "given", "worker_entry", "serving", "options")),
    *(f"treadle.doors.{name}" for name in ("worker.door", "oneshot.input", "oneshot.run", "oneshot.verbose")),
    *(f"treadle.agent.{name}" for name in ("native", "loop", "mcp", "project", "repeats", "replay", "prompt")),
    *(f"treadle.agent.providers.{name}" for name in ("anthropic", "chat", "client", "http", "responses", "sse")),
    *(f"treadle.agent.providers.{name}" for name in ("scripted", "script")),
    *(f"treadle.coordination.{name}" for name in ("guard", "layout", "origin", "planning", "repository", "identity")),
    *(f"treadle.io.{name}" for name in ("http", "peer", "process.child", "sandbox.start", "sandbox.planted")),
    *(f"treadle.policy.{name}" for name in ("guess", "shell", "syntax")),
    *("array", "treadle.workspace.git", "treadle.workspace.user_repository"),
)


def preload() -> None:
    """Load the modules, and build what is the same in every run."""
    import importlib

    for name in MODULES:
        importlib.import_module(name)
    from treadle.agent.tools.registry import builtin

    builtin().schemas()


def terminal(name: str, arguments: list[str]) -> int:
    """A command for terminals, in a copy."""
    from treadle.cli.terminal import main as run_terminal
    from treadle.cli.terminal.run import attaches

    if name == "run" and attaches(arguments):
        return DECLINED  # it needs a process of the terminal that it attaches
    return run_terminal(name, arguments)


def once(arguments: list[str]) -> int:
    """A run, in a copy."""
    from treadle.cli.root import main

    _begin()
    try:
        main(arguments)
    except KeyboardInterrupt:
        return 130
    return 0


def work() -> int:
    """A worker, in a copy."""
    import os

    from treadle.cli.worker_entry import serve

    _begin()
    return serve(os.environ.get("TREADLE_AGENT") or "native")


def _begin() -> None:
    """Turn garbage collection back on: the warm parent has it off."""
    import gc

    from treadle.io.process import lifetime

    lifetime.begin()
    gc.enable()

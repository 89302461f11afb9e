"""What a warm parent (`io.process.warm`) has loaded before anybody asks for anything, and what its copies do."""

from treadle.cli.warm import DECLINED

MODULES = (
    *("ssl", "truststore", "hashlib", "tomllib", "tree_sitter", "tree_sitter_bash", "concurrent.futures.thread"),
    *("treadle.agents", "treadle.cli.worker_entry", "treadle.cli.serving", "treadle.doors.worker.door"),
    *("treadle.agent.native", "treadle.agent.loop", "treadle.agent.mcp", "treadle.agent.project"),
    *("treadle.agent.providers.anthropic", "treadle.agent.providers.chat", "treadle.io.http"),
    *("treadle.agent.providers.http", "treadle.agent.providers.responses", "treadle.agent.providers.script"),
    *("treadle.coordination.guard", "treadle.coordination.planning", "treadle.coordination.identity"),
    *("treadle.io.peer", "treadle.io.process.child", "treadle.io.sandbox.start", "treadle.io.sandbox.places"),
    *("treadle.policy.guess", "treadle.policy.shell", "array", "pwd", "treadle.workspace.user_repository"),
)


def preload() -> None:
    """Load the modules, and build what is the same in every worker."""
    import importlib

    for name in MODULES:
        importlib.import_module(name)
    from treadle.agent.toolbox import builtin

    builtin().schemas()


def terminal(name: str, arguments: list[str]) -> int:
    """A command for terminals, in a copy."""
    from treadle.cli.terminal import main as run_terminal
    from treadle.cli.terminal.start import attaches

    if name == "run" and attaches(arguments):
        return DECLINED  # it needs a process of the terminal that it attaches
    return run_terminal(name, arguments)


def work() -> int:
    """A worker, in a copy."""
    import os

    from treadle.cli.worker_entry import serve
    from treadle.io.process import lifetime

    lifetime.begin()
    return serve(os.environ.get("TREADLE_AGENT") or "native")

"""`treadle completion SHELL`, and the words that its scripts cannot know: terminals, sessions, agents, orders."""

from collections.abc import Callable, Iterable

import click

from treadle.cli.render import one_line
from treadle.errors import TreadleError

SHELLS = ("bash", "zsh", "fish")
Row = tuple[str, str]
"""A word and its description."""


def terminals() -> Iterable[Row]:
    from treadle.terminal.places import default_directory, ids

    return [(name, "terminal") for name in ids(default_directory())]


def sessions() -> Iterable[Row]:
    from treadle.agent.session_list import list_sessions

    return [(entry.id, entry.name or entry.prompt) for entry in list_sessions()[:100] if entry.turns]


def agents() -> Iterable[Row]:
    from treadle.agents import agent_settings, names

    return [(name.removesuffix("COMMAND").removesuffix("URL"), "agent") for name in names(agent_settings())]


def orders() -> Iterable[Row]:
    """The latest orders of this fleet; none when it does not answer at once, because a Tab must not wait."""
    import asyncio

    from treadle.errors import TreadleError
    from treadle.io.process.loop import run_async

    async def latest() -> list[Row]:
        from treadle.fleet.client import connected, list_orders

        async with asyncio.timeout(2), connected("watch") as bus:
            return [(order.id, f"{order.state}: {order.title}") for order, _ in await list_orders(bus, count=100)]

    try:
        return run_async(latest())
    except (TreadleError, OSError, TimeoutError, ImportError):
        return []


def modes() -> Iterable[Row]:
    from typing import get_args

    from treadle.session import Mode

    return [(mode, "") for mode in get_args(Mode)]


def pages() -> Iterable[Row]:
    from treadle.cli.docs import pages

    return [(page.name, page.title) for page in pages()]


def shells() -> Iterable[Row]:
    return [(shell, "") for shell in SHELLS]


LISTS: dict[str, Callable[[], Iterable[Row]]] = {
    "terminals": terminals,
    "sessions": sessions,
    "agents": agents,
    "orders": orders,
    "modes": modes,
    "pages": pages,
    "shells": shells,
}


def rows(kind: str) -> str:
    """One per line: the word, a tab, its description."""
    return "".join(f"{word}\t{one_line(what)[:60]}\n" for word, what in LISTS[kind]())


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--list", "kind", type=click.Choice(list(LISTS)), hidden=True, help="What the scripts ask at run time.")
def completion(shell: str | None, kind: str | None) -> None:
    """Print a completion script for your shell: commands, options, terminals, sessions, agents, orders of a fleet.

    \b
    bash   echo 'source <(treadle completion bash)' >> ~/.bashrc
    zsh    echo 'source <(treadle completion zsh)' >> ~/.zshrc      # after compinit
    fish   treadle completion fish > ~/.config/fish/completions/treadle.fish

    It covers `treadle` and the `heimdall-*` commands. Make it anew after an update.
    """
    if kind is not None:
        try:
            click.echo(rows(kind), nl=False)
        except (TreadleError, OSError):  # offer nothing: a shell must not print an error in the middle of a line
            pass
        return
    if shell is None:
        raise click.UsageError(f"which shell? {', '.join(SHELLS)}")
    from treadle.cli.completion.scripts import script
    from treadle.cli.words import every

    click.echo(script(shell, every()), nl=False)

"""What completion offers that no script can know: terminals, sessions, agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from treadle.cli.render import one_line

SHELLS = ("bash", "zsh", "fish")
Row = tuple[str, str]
"""A word and what it is."""


def terminals() -> Iterable[Row]:
    from treadle.terminal.places import default_directory, ids

    return [(name, "terminal") for name in ids(default_directory())]


def sessions() -> Iterable[Row]:
    from treadle.agent.session_list import list_sessions

    return [(entry.id, entry.name or entry.prompt) for entry in list_sessions()[:100] if entry.turns]


def agents() -> Iterable[Row]:
    from treadle.agents import agent_settings, names

    return [(name.removesuffix("COMMAND"), "agent") for name in names(agent_settings())]


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
    "modes": modes,
    "pages": pages,
    "shells": shells,
}


def rows(kind: str) -> str:
    """One a line: the word, a tab, what it is."""
    return "".join(f"{word}\t{one_line(what)[:60]}\n" for word, what in LISTS[kind]())

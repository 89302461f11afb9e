"""Where the words of a goal come from that no person has written for us: an issue of a forge, a directory of tasks."""

import asyncio
import re
from collections.abc import Mapping

from treadle.landing.forge.choosing import forge_of
from treadle.workspace import checkouts
from treadle.workspace.remotes import Remote

_NAMED = re.compile(r"(github(?::[^#\s]+)?)#(\d+)")
_ADDRESS = re.compile(r"(https://[\w.-]+/[\w.-]+/[\w.-]+)/issues/(\d+)/?")


def is_issue(source: str) -> bool:
    return bool(_NAMED.fullmatch(source) or _ADDRESS.fullmatch(source))


async def issue(source: str, root: str, token: str = "") -> str:
    """The words of an issue, its title first: `github#12` of the repository's remote `origin`, `github:OWNER/NAME#12`,
    or its address. `token` names the variable that holds the token."""
    if found := _ADDRESS.fullmatch(source):
        forge = forge_of("github", token, found[1])
    else:
        found = _NAMED.fullmatch(source)
        assert found is not None, "ask is_issue first"
        address = "" if ":" in found[1] else (await asyncio.to_thread(_origin, root))
        forge = forge_of(found[1], token, address)
    there = await forge.issue(int(found[2]))
    return f"{there.title}\n\n{there.body}".strip()


def _origin(root: str) -> str:
    return Remote(checkouts.around(root), "origin").address


def tasks(name: str, files: Mapping[str, str]) -> str:
    """The words of a directory of Markdown tasks: its name as the goal, then each file under its own name."""
    parts = [f"{file}:\n\n{text.strip()}" for file, text in sorted(files.items())]
    return "\n\n".join([f"All that the tasks in {name} ask for", *parts])

"""Where the words of a goal come from that no person has written for us: an issue of a forge, a directory of tasks."""

import asyncio
import re
from collections.abc import Mapping

from treadle.landing.forge.choosing import KINDS, forge_of
from treadle.workspace import checkouts
from treadle.workspace.remotes import Remote

_NAMED = re.compile(rf"((?:{'|'.join(KINDS)})(?::[^#\s]+)?)#(\d+)")
_GITHUB = re.compile(r"(https://[\w.-]+/[\w.-]+/[\w.-]+)/issues/(\d+)/?")
_GITLAB = re.compile(r"(https://[\w.-]+(?:/[\w.-]+){2,})/-/(?:issues|work_items)/(\d+)/?")


def is_issue(source: str) -> bool:
    return any(form.fullmatch(source) for form in (_NAMED, _GITHUB, _GITLAB))


async def issue(source: str, root: str, token: str = "") -> str:
    """The words of an issue, its title first: `github#12` of the repository's remote `origin`, `github:OWNER/NAME#12`,
    or its address, and the same with `gitlab` and `forgejo`. `token` names the variable that holds the token."""
    if found := _GITLAB.fullmatch(source):
        forge = forge_of("gitlab", token, found[1])
    elif found := _GITHUB.fullmatch(source):
        forgejo = source.startswith(f"https://{KINDS['forgejo'].public}/")
        forge = forge_of("forgejo" if forgejo else "github", token, found[1])
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

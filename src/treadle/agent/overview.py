"""What a session begins with: where it is in git, and what files there are, in a few lines.

Everything is read, nothing is run: `git status` runs programs that a repository's configuration names. It is read once,
so that services can cache the prompt, and it says so.
"""

import os
import re
from collections.abc import Callable

from treadle.agent.configuration import Configuration
from treadle.agent.project import read_text
from treadle.agent.providers.base import Provider
from treadle.settings import trust

ENTRIES, INSIDE = 40, 8
"""How many entries are shown of the working directory, and of each directory in it."""
READ = 2000
"""A directory with more entries is not worth listing."""
LEFT_OUT = {"node_modules", "target", "dist", "build", "__pycache__", "venv", "vendor", "env"}


def for_prompt(configuration: Configuration, provider: Provider, hidden: Callable[[str], bool]) -> str:
    """It belongs to our own prompt: one that was given, or is for small models, stands without it."""
    ours = configuration.persona(provider) is None and configuration.spec.instructions.uses("project")
    return overview(configuration.spec.cwd, hidden) if ours else ""


def overview(cwd: str, hidden: Callable[[str], bool]) -> str:
    """`hidden`: paths that rules keep from being read. Empty where there is nothing to say."""
    here = os.path.realpath(cwd)
    home = os.path.realpath(os.path.expanduser("~"))
    if not os.path.isdir(here) or here in ("/", home) or trust.foreign_owner(cwd) is not None:
        return ""
    listed = _listed(here, hidden)
    branch = _branch([*trust.up_to_top(cwd)][-1])
    parts = [f"Git branch: {branch}" if branch else "", f"Files:\n{listed}" if listed else ""]
    text = "\n".join(part for part in parts if part)
    return f"When this session began (look again before you rely on it):\n{text}" if text else ""


def _branch(top: str) -> str:
    """The branch that is checked out, as `.git/HEAD` says; empty when it does not, or is not there."""
    head = read_text(os.path.join(top, ".git", "HEAD"), top)
    found = re.fullmatch(r"ref: refs/heads/([\w./@+-]{1,200})\n?", head or "", re.ASCII)
    return found[1] if found else ""


def _listed(directory: str, hidden: Callable[[str], bool]) -> str:
    entries = _entries(directory, hidden)
    lines = []
    for name, is_directory in entries[:ENTRIES]:
        inside = _entries(os.path.join(directory, name), hidden) if is_directory else []
        shown = ", ".join(f"{inner}/" if deeper else inner for inner, deeper in inside[:INSIDE])
        more = f" and {len(inside) - INSIDE} more" if len(inside) > INSIDE else ""
        lines.append(f"{name}/: {shown}{more}" if shown else f"{name}/" if is_directory else name)
    if len(entries) > ENTRIES:
        lines.append(f"and {len(entries) - ENTRIES} more")
    return "\n".join(lines)


def _entries(directory: str, hidden: Callable[[str], bool]) -> list[tuple[str, bool]]:
    """(name, whether it is a directory) of what is there, sorted, without what is hidden, made or oddly named."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for number, entry in enumerate(entries):
                if number >= READ:
                    return []
                plain = re.fullmatch(r"[\w+@ ,()=-][\w.+@ ,()=-]{0,99}", entry.name)
                if plain and entry.name not in LEFT_OUT and not entry.is_symlink() and not hidden(entry.path):
                    found.append((entry.name, entry.is_dir(follow_symlinks=False)))
    except OSError:
        return []
    return sorted(found)

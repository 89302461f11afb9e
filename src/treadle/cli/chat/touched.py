"""What a command would touch, as far as its text shows it, for the person who is asked whether it may run."""

import os

from treadle.policy.shell import read

SHOWN = 8


def touched(command: str, cwd: str) -> str:
    """One line: where the command writes, and which existing files and directories it names."""
    script = read(command)
    writes = list(dict.fromkeys(script.writes))
    named = [word for part in script.parts for word in part.words[1:] if _is_there(word, cwd)]
    named = [word for word in dict.fromkeys(named) if word not in writes]
    parts = [f"writes {_listed([one + ('' if _is_there(one, cwd) else ' (new)') for one in writes])}"] if writes else []
    parts += [f"names {_listed(named)}"] if named else []
    if not script.understood:
        parts.append(f"not all of it can be understood: {script.why}")
    return "; ".join(parts) or "names no file that exists here"


def _is_there(word: str, cwd: str) -> bool:
    if not word or word.startswith("-") or "\0" in word:
        return False
    try:
        return os.path.lexists(os.path.join(cwd, os.path.expanduser(word)))
    except (OSError, ValueError):
        return False


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more

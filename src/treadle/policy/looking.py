"""Commands that only look, or that only move files about, and the files that they name: what needs no question. Pure.

This reads a command's text, so it only decides what may run *without a question*; what is forbidden is kept by rules
and by the sandbox. Whatever is not plainly known is asked about. `git` is not among them: it runs programs that the
configuration of a repository names.
"""

import re
from collections.abc import Callable, Sequence

from treadle.policy.shell import Part, ShellScript

PLAIN = set(
    "cat head tail wc file stat du pwd echo true false whoami id uname basename dirname realpath readlink diff cmp cut "
    "tr nl tac rev comm join paste fold md5sum sha1sum sha256sum cksum seq test which nproc arch tty groups".split()
)
"""Their options change nothing, and their other words are text or files that they read."""
ORGANISERS = {"mkdir", "touch", "mv", "cp"}
"""What may also run where edits are allowed, if all that they name is in the workspace."""
_FIND = re.compile(r"-(exec|execdir|ok|okdir|delete|fls|fprint|fprint0|fprintf|L|follow|files0-from)")
_SORT = re.compile(r"-[a-zA-Z]*[oT].*|--(output|compress-program|temporary-directory|files0-from).*")
_FOLLOWS = re.compile(r"-[a-zA-Z]*([RL].*|f.+)|--(dereference-recursive|follow|pre|pre-glob|search-zip|hostname-bin).*")


def _uniq(words: Sequence[str]) -> bool:
    return sum(not word.startswith("-") for word in words) <= 1  # the second one is written


_CHECKED: dict[str, Callable[[Sequence[str]], bool]] = {
    "ls": lambda words: not any(re.match(r"-[a-zA-Z]*[RL]|--(recursive|dereference)", word) for word in words),
    "grep": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "egrep": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "fgrep": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "rg": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "find": lambda words: not any(map(_FIND.fullmatch, words)),
    "sort": lambda words: not any(map(_SORT.fullmatch, words)),
    "uniq": _uniq,
    "date": lambda words: not any(word.startswith(("-s", "--set", "-f", "--file")) for word in words),
}
_RECURSIVE = {"grep", "egrep", "fgrep", "rg", "find", "diff"}


def in_sight(command: str) -> bool:
    """Whether a person who sees the command sees all of it: not with control characters, writing directions, or
    characters without a width."""
    return all(character.isprintable() or character in "\n\t" for character in command)


def only_looks(script: ShellScript) -> bool:
    """Whether every command in it only reads."""
    return _simple(script) and all(map(_looks, script.parts))


def only_organises(script: ShellScript) -> bool:
    """Whether every command in it only reads, or makes, moves and copies files."""
    return _simple(script) and all(_looks(part) or part.words[0] in ORGANISERS for part in script.parts)


def looks_around(script: ShellScript) -> bool:
    """Whether a command in it reads more files than it names."""
    return any(part.words[0] in _RECURSIVE for part in script.parts)


def named(part: Part) -> list[str] | None:
    """All words of it that can be files; None when an option hides one."""
    found: list[str] = []
    for word in part.words[1:]:
        if not word.startswith("-"):
            found.append(word)
        elif "/" in word or "~" in word or ".." in word or word.startswith("--files"):
            return None
    return found


def _simple(script: ShellScript) -> bool:
    parts = script.parts
    usual = all(part.certain and part.plain and not part.assignments and part.words for part in parts)
    return bool(parts) and script.understood and not script.writes and usual and script.bases == ("",)


def _looks(part: Part) -> bool:
    name = part.words[0]
    check = _CHECKED.get(name)
    return check(part.words[1:]) if check is not None else name in PLAIN

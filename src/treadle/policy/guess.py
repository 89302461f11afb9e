"""Guesses what a tool call of an unknown agent would touch, from the tool's name and arguments.

The guess may be wrong. It errs towards finding too much, because it is used to find what a policy forbids.
"""

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from treadle.events import ToolKind
from treadle.session import Access

_WORDS: dict[str, ToolKind] = {
    **dict.fromkeys(("bash", "shell", "exec", "execute", "command", "terminal", "run", "sh", "zsh", "kill"), "execute"),
    **dict.fromkeys(("fetch", "web", "http", "url", "browser", "browse", "download", "curl"), "network"),
    **dict.fromkeys(
        (
            "write",
            "edit",
            "create",
            "delete",
            "remove",
            "patch",
            "replace",
            "insert",
            "update",
            "move",
            "rename",
            "save",
        ),
        "write",
    ),
    **dict.fromkeys(("read", "view", "cat", "open", "grep", "glob", "find", "list", "ls", "search", "stat"), "read"),
}
"""In this order, the most harmful first, whatever the order of the words in a tool's name."""
_PATH_KEY = re.compile(r"path|file|dir|folder|notebook|destination|target", re.I)
_COMMAND_KEY = re.compile(r"^(command|cmd|script|shell_command|commandline|command_line)$", re.I)
_URL_KEY = re.compile(r"url|uri|href|endpoint", re.I)
_SIMPLE = frozenset((str, int, float, bool, type(None)))


def access_of(name: str, args: Any) -> Access:
    """`paths` are as they were written, because the directory they are relative to is unknown here."""
    if type(args) is dict and all(type(value) in _SIMPLE for value in args.values()):
        return _simple(name, args)
    paths = tuple(_texts(args, _PATH_KEY))
    command = next(map(_command, _values(args, _COMMAND_KEY)), None)
    url = next(_texts(args, _URL_KEY), None)
    kind = _kind(name)
    if command is not None and paths and kind != "execute" and (act := _kind(command)) and command.isidentifier():
        kind, command = act, None  # an editor with commands of its own: view, create, str_replace
    fallback: ToolKind = "execute" if command is not None else "network" if url is not None else "other"
    return Access(tool=name, kind=kind or fallback, paths=paths, command=command, url=url, args=args)


def _simple(name: str, args: dict[str, Any]) -> Access:
    """A faster version for nearly all calls: a few arguments that are texts and numbers."""
    path_keys, command_keys, url_keys = _keys(tuple(args))
    paths = tuple([args[key] for key in path_keys if type(args[key]) is str])
    commands = [args[key] if type(args[key]) is str else None for key in command_keys]
    command = commands[0] if commands else None
    url = next((args[key] for key in url_keys if type(args[key]) is str), None)
    kind = _kind(name)
    if command is not None and paths and kind != "execute" and command.isidentifier() and (act := _kind(command)):
        kind, command = act, None
    fallback: ToolKind = "execute" if command is not None else "network" if url is not None else "other"
    return Access(tool=name, kind=kind or fallback, paths=paths, command=command, url=url, args=args)


@lru_cache(maxsize=1024)
def _keys(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Those of the names that hold paths, commands and addresses."""
    return tuple(tuple(name for name in names if key.search(name)) for key in (_PATH_KEY, _COMMAND_KEY, _URL_KEY))


@lru_cache(maxsize=1024)
def _kind(name: str) -> ToolKind | None:
    words = set(re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()))
    return next((kind for word, kind in _WORDS.items() if word in words), None)


def _command(value: Any) -> str | None:
    """A command is either one text or a list of words."""
    words = [*_strings(value)]
    return value if isinstance(value, str) else shlex.join(words) if words else None


def _texts(args: Any, key: re.Pattern[str]) -> Iterator[str]:
    for value in _values(args, key):
        yield from _strings(value)


def _values(args: Any, key: re.Pattern[str], depth: int = 0) -> Iterator[Any]:
    """The values under keys of this kind: directly, in lists, and in the objects of a list of edits."""
    if depth > 4:
        return
    if isinstance(args, list):
        for item in args:
            yield from _values(item, key, depth + 1)
    if not isinstance(args, dict):
        return
    for name, value in args.items():
        if key.search(str(name)) and not _nested(value):
            yield value
        elif isinstance(value, dict | list):
            yield from _values(value, key, depth + 1)


def _nested(value: Any) -> bool:
    return isinstance(value, dict) or isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield from value

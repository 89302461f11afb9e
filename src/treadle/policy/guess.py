"""What a tool call would read, write or run, by its tool and arguments: the one judge of tools that are not ours.

Hooks of outside agents, the guards of sessions, rules and sidecars all ask here. The answer may be wrong. It errs
towards finding too much, because it is used to find what a policy or a claim forbids. Light: hooks import it.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache

from treadle.light import TYPE_CHECKING, Any, regex

if TYPE_CHECKING:
    from treadle.events import ToolKind
    from treadle.session import Access

_WORDS: "dict[str, ToolKind]" = {
    **dict.fromkeys(("bash", "shell", "exec", "execute", "command", "terminal", "run", "sh", "zsh", "kill"), "execute"),
    **dict.fromkeys(("fetch", "web", "http", "url", "browser", "browse", "download", "curl"), "network"),
    **dict.fromkeys("write edit create delete remove patch replace insert update move rename save".split(), "write"),
    **dict.fromkeys(("read", "view", "cat", "open", "grep", "glob", "find", "list", "ls", "search", "stat"), "read"),
}
"""In this order, the most harmful first, whatever the order of the words in a tool's name."""
_READS = set("read view get list search find grep glob ls stat show describe diff query lookup count tree lsp".split())
_NOUNS = set(
    "file files text lines range content contents code codebase directory directories dir dirs folder path paths info "
    "symbol symbols definition references diagnostics problems overview structure resource resources multiple many all "
    "git log status web notebook project in of for by with".split()
)
"""A tool that has only such words in its name, and one that reads, is a reader; all else is taken for a writer."""
_LEDGER = {
    "make_claim",
    "release_claim",
    "append_decision",
    "raise_conflict_pr",
    "post_message",
    "set_fact",
    "brief",
    "give_answer",
}
"""Tools of ours that name files and change none."""
_WRITES = {
    *("write", "edit", "multiedit", "notebookedit", "create", "write_file", "replace", "edit_file", "notebook_edit"),
    *("apply_patch", "patch", "delete", "str_replace", "strreplace", "editnotebook", "str_replace_editor"),
}
"""File-writing tools of known programs, in lower case: a `command` among their arguments is none of the shell."""
_PATHS = "path|file|dir|folder|notebook|destination|target"
_PATH_KEY = regex(_PATHS, re.I)
_WRITE_KEY = regex(f"{_PATHS}|glob|uri|^(source|from|to)$", re.I)
_COMMAND_KEY = regex(r"^(command|cmd|script|shell_command|commandline|command_line)$", re.I)
_RUNS = regex(r"exec|run|eval|shell|terminal|process|repl|stdin|command|bash|script", re.I)
_CODE_KEY = regex(r"code|script|input|chars|expression|cmd_?line|commands|argv|shell_command|command_?line", re.I)
_URL_KEY = regex(r"url|uri|href|endpoint", re.I)
_WHERE = ("dir_path", "workdir", "cwd", "working_directory", "directory")
_PATCH = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_DIFF = regex(r"^(?:\+\+\+ b/|--- a/|rename (?:from|to) )([^\t\n]+)", re.M)
_SIMPLE = frozenset((str, int, float, bool, type(None)))
_MOST = 2000
"""How many arguments of a call are looked at."""


# What a call of an unknown agent touches, for rules.


def access_of(name: str, args: Any) -> "Access":
    """`paths` are as they were written, because the directory they are relative to is unknown here."""
    from treadle.session import Access

    if type(args) is dict and all(type(value) in _SIMPLE for value in args.values()):
        path_keys, command_keys, url_keys = _keys(tuple(args))  # nearly all calls: a few texts and numbers
        paths = [_plain(args[key]) for key in path_keys if type(args[key]) is str]
        commands = [args[key] if type(args[key]) is str else None for key in command_keys]
        url = next((args[key] for key in url_keys if type(args[key]) is str), None)
    else:
        paths = [_plain(text) for text in _texts(args, _PATH_KEY)]
        commands = [*map(_command, _values(args, _COMMAND_KEY))]
        url = next(_texts(args, _URL_KEY), None)
    command, kind = commands[0] if commands else None, _kind(name)
    if command is not None and paths and kind != "execute" and command.isidentifier() and (act := _kind(command)):
        kind, command = act, None  # an editor with commands of its own: view, create, str_replace
    fallback: ToolKind = "execute" if command is not None else "network" if url is not None else "other"
    return Access(tool=name, kind=kind or fallback, paths=tuple(paths), command=command, url=url, args=args)


@lru_cache(maxsize=1024)
def _keys(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Those of the names that hold paths, commands and addresses."""
    return tuple(tuple(name for name in names if key.search(name)) for key in (_PATH_KEY, _COMMAND_KEY, _URL_KEY))


@lru_cache(maxsize=1024)
def _name_words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()))


@lru_cache(maxsize=1024)
def _kind(name: str) -> "ToolKind | None":
    return next((kind for word, kind in _WORDS.items() if word in _name_words(name)), None)


def _command(value: Any) -> str | None:
    """A command is either one text or a list of words."""
    words = [*_strings(value)]
    return value if isinstance(value, str) else _quoted(words) if words else None


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


# What a call would write.


def written_by(access: "Access") -> list[str]:
    """The paths that a call writes, also one of a tool of which only its arguments are known."""
    named = CallWrites(access.tool, access.args).paths
    return [*dict.fromkeys([*(access.paths if access.kind == "write" else ()), *named])]


class CallWrites:
    """What one call would write, with paths relative to the directory in which its program works."""

    __slots__ = ("paths", "command", "where", "mentions", "goes_on")

    def __init__(self, tool: str, arguments: Any) -> None:
        arguments = unpacked(arguments)
        args: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        self.where = next((args[name] for name in _WHERE if isinstance(args.get(name), str)), "")
        """The directory in which its command runs."""
        self.command = _script(tool, args) if tool.lower() not in _WRITES else ""
        self.goes_on = "what it does in the background" if _is_behind(args) else ""
        """Why it may run on when the call is over, if its arguments say so."""
        rest = {key: value for key, value in args.items() if key not in _WHERE}
        base, rest = (self.where, rest) if rest else ("", args)  # unless the directory is all that it names
        texts = [] if _only_reads(tool) else _lines(rest)
        named = [text for key, text in texts if _WRITE_KEY.search(key)]
        named += [path for key, text in args.items() if isinstance(text, str) for path in _patched(key, text)]
        self.paths = [_joined(base, path) for path in dict.fromkeys(named)]
        """What it names to be written."""
        others = [] if self.command else [text for _, text in texts]
        self.mentions = [_joined(base, text) for text in dict.fromkeys(others)]
        """What else in the arguments of a tool that may write could be a path."""

    def mentioned(self, cwd: str) -> list[str]:
        """The same, absolute, without the directory itself and those around it."""
        found = (posixpath.normpath(posixpath.join(cwd, path)) for path in self.mentions)
        return [path for path in dict.fromkeys(found) if not f"{cwd}/".startswith(f"{path}/")]


def _joined(base: str, path: str) -> str:
    return path if path.startswith("/") or not base else f"{base}/{path}"


def _only_reads(tool: str) -> bool:
    name = tool.rpartition("__")[2]  # without the name of its server
    name = name.removeprefix("mcp_").partition("_")[2] if name.startswith("mcp_") else name
    words = _name_words(name)
    return name in _LEDGER or bool(words & _READS) and words <= _READS | _NOUNS


def _is_behind(args: dict[str, Any]) -> bool:
    return bool(args.get("run_in_background") or args.get("is_background"))


def _script(tool: str, args: dict[str, Any]) -> str:
    """The command of the shell that it runs, or its code as one."""
    command, words = args.get("command", args.get("cmd")), args.get("args")
    if isinstance(command, list):
        return _quoted(command)
    if command is not None:
        return f"{command} {_quoted(words)}" if isinstance(words, list) else str(command)
    given = args.items() if _RUNS.search(tool) else ()
    return "\n".join(_code(key.lower(), value) for key, value in given if _CODE_KEY.fullmatch(key))


def _quoted(words: list[Any]) -> str:
    import shlex  # few calls have a list of words

    return shlex.join(map(str, words))


def _code(key: str, value: Any) -> str:
    if key in ("code", "expression"):
        return _quoted(["python3", "-c", value])  # in whichever language: what it writes is not seen
    if isinstance(value, list):
        return _quoted(value) if key == "argv" else "\n".join(map(str, value))
    return str(value)


def unpacked(value: Any) -> Any:
    """What a text of JSON holds; else the value as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    import json

    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _lines(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Every text of one line in the arguments with its key, however deep; a key is such a text, too."""
    found: list[tuple[str, str]] = []
    todo: list[tuple[str, Any]] = [("", arguments)]
    while todo and len(found) < _MOST:
        key, value = todo.pop()
        value = unpacked(value)
        if isinstance(value, dict):
            found += [(key, _plain(str(name))) for name in value if "/" in str(name)]
            todo += [(str(name), one) for name, one in value.items()]
        elif isinstance(value, list):
            todo += [(key, one) for one in value]
        elif isinstance(value, str) and (text := _plain(value)) and "\n" not in text:
            found.append((key, text))
    return found


def _plain(text: str) -> str:
    """The path in a file's address, or the text itself."""
    text = text.strip()
    if text[:7].lower() != "file://":
        return text
    from urllib.parse import unquote

    return unquote("/" + text[7:].partition("/")[2])


def _patched(key: str, text: str) -> list[str]:
    """The files that a patch changes, in Codex's format or as a diff."""
    found = _DIFF.findall(text) if key in ("patch", "diff") else []
    if "*** " in text:
        lines = [line.lstrip() for line in text.splitlines()]
        found += [line.removeprefix(mark).strip() for line in lines for mark in _PATCH if line.startswith(mark)]
    return found

r"""The one glob dialect: does a pattern match a path, and can two patterns ever match the same path. Pure and light.

    *        any characters of one name            [a-z]  [!a-z]   one character of (not of) these
    ?        any one character of a name           {a,b}           either
    **       any characters, also across `/`; as a whole name, any number of directories, also none
    \x       the character x itself

`.`, `..` and `//` are resolved first. A pattern without wildcards, or one that ends in `/`, covers what it names and
everything under it. `a/**` is everything under `a`, but not `a`. Relative patterns never match absolute
paths: the caller joins its base directory first.

Overlap is exact, and needs no search through the product of two automata. If both sides contain a star, a common
word exists exactly when what comes before their first stars can agree and what comes after their last stars can:
the middle of each fits into the other's star. If only one has a star, the other has a fixed length and is matched
against it, place by place. The same holds for characters within a name (star `*`) and for names within a path
(star `**`), so one function, `_meet`, serves both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import lru_cache

from treadle.errors import ConfigError
from treadle.light import TYPE_CHECKING, TypeAlias

# The rules of a `.gitignore` file, as data: which paths they leave out. Pure and light.
#
# The rules of one file become a few regular expressions, one per run of rules of the same sign, tried from the last
# to the first: a walk over 100,000 files tries one or two of them per name. Stars are compiled so that no pattern,
# however hostile, backtracks more than once over a name.


class IgnoreRules:
    """The rules of one `.gitignore`."""

    def __init__(self, text: str) -> None:
        runs: list[tuple[bool, list[str], list[str]]] = []
        for line in text.split("\n"):
            rule = _rule(line)
            if rule is None:
                continue
            negated, anchored, regex = rule
            if not runs or runs[-1][0] != negated:
                runs.append((negated, [], []))
            (runs[-1][2] if anchored else runs[-1][1]).append(regex)
        self._runs = [(negated, _any(names), _any(places)) for negated, names, places in reversed(runs)]

    def ignored(self, path: str, name: str) -> bool | None:
        """Whether the rules ignore it (True) or include it again (False); None when no rule matches.

        `path` is relative to the directory of the rules; `path` and `name` end in `/` for a directory.
        """
        for negated, names, places in self._runs:
            if (names and names.fullmatch(name)) or (places and places.fullmatch(path)):
                return not negated
        return None


def _any(choices: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(choices), re.S) if choices else None


def _rule(line: str) -> tuple[bool, bool, str] | None:
    """(includes again, applies to a path rather than any name, regular expression), or None for no rule."""
    line = re.sub(r"(?<!\\)[ \t]+$", "", line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    body = line[negated:]
    only_directories = body.endswith("/")
    body = body.rstrip("/") if only_directories else body
    anchored = "/" in body
    body = body.removeprefix("/")
    if not body:
        return None
    if not anchored and body.strip("*") == "":
        body = "*"
    try:
        regex = _path(body.split("/"))
        re.compile(regex)
    except re.error:
        return None
    return negated, anchored, regex + ("/" if only_directories else "/?")


def _path(names: list[str]) -> str:
    regex = ""
    for place, name in enumerate(names):
        last = place == len(names) - 1
        if name == "**":
            regex += ".+" if last else "(?:[^/]+/)*"
        else:
            regex += _name(name) + ("" if last else "/")
    return regex


def _name(name: str) -> str:
    r"""One name with `*`, `?`, `[...]` and `\`. Stars but the last match as little as possible, no backtracking."""
    parts: list[str] = [""]
    place = 0
    while place < len(name):
        char = name[place]
        place += 1
        if char == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[" and (end := _ignored_class_end(name, place)):
            parts[-1] += _ignored_class(name[place:end])
            place = end + 1
        else:
            if char == "\\" and place < len(name):
                char = name[place]
                place += 1
            parts[-1] += re.escape(char)
    first, *starred = parts
    if not starred:
        return first
    stars = "".join(f"(?>[^/]*?{part})" for part in starred[:-1])
    return f"(?=[^/]){first}{stars}[^/]*{starred[-1]}"


def _ignored_class_end(name: str, start: int) -> int:
    place = start + (name[start : start + 1] in ("!", "^")) + 1
    return max(0, name.find("]", place))


def _ignored_class(inside: str) -> str:
    negated = inside[0] in "!^"
    members = re.sub(r"\\?([\\\]\[^&~|])", r"\\\1", inside[negated:])
    return f"(?!/)[{'^' if negated else ''}{members}]"


if TYPE_CHECKING:
    Ranges: TypeAlias = tuple[tuple[int, int], ...]
    Name: TypeAlias = tuple[Ranges | None, ...]
    """One name of a path: the possible characters at each position; None is a star."""
    Path: TypeAlias = tuple[int, tuple["str | Name | None", ...]]
    """(-1 for absolute, else the number of leading `..`; the names, where a str is literal and None is `**`)."""

MAX_LENGTH = 4096
MAX_ALTERNATIVES = 512
REMEMBERED = 1 << 16
_DOT, _SLASH, _LAST = ord("."), ord("/"), 0x10FFFF
_ANY: Ranges = ((1, _SLASH - 1), (_SLASH + 1, _LAST))
_STAR: Name = (None,)
_SPECIAL = frozenset("*?[\\")


def match(pattern: str, path: str) -> bool:
    """Whether the literal path `path` is covered by `pattern`."""
    subject = normalise(path)
    return parse(pattern).regex.fullmatch("" if subject == "." else subject) is not None


def overlaps(a: str, b: str, files: Container[str] = ()) -> bool:
    """Whether any path is covered by both patterns.

    A literal pattern covers what lies under it, so `**/x.py` and `src/y.py` overlap in `src/y.py/x.py`. A literal
    pattern that is known to be a file, with nothing under it, should be listed in `files`.
    """
    ours, theirs = parse(a, a in files), parse(b, b in files)
    return any(_paths_meet(one, other) for one in ours.paths for other in theirs.paths)


def normalise(path: str) -> str:
    """A literal path without `.`, `//`, a trailing `/` and any `..` that can be resolved. The empty path is `.`."""
    if path and not path.startswith(("./", "../")) and path.strip("/") not in (".", ".."):
        if "//" not in path and "/." not in path and not (path.endswith("/") and path != "/"):
            return path
    names: list[str] = []
    absolute = path.startswith("/")
    for name in path.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", ".") and not (name == ".." and absolute):
            names.append(name)
    return "/" * absolute + "/".join(names) or "."


def escape(path: str) -> str:
    """A pattern that covers exactly this path (and, like any literal, what is under it)."""
    return "".join("\\" + char if char in "*?[]{},\\" else char for char in path)


def is_literal(pattern: str) -> bool:
    """Whether the pattern names exactly one path (and what is under it)."""
    paths = parse(pattern).paths
    *names, last = paths[0][1]
    return len(paths) == 1 and last is None and all(isinstance(name, str) for name in names)


def starts(pattern: str) -> list[str]:
    """For each alternative of an absolute pattern, the directory under which everything it covers lies."""
    found = []
    for _, names in parse(pattern).paths:
        wild = next((at for at, name in enumerate(names) if not isinstance(name, str)), len(names))
        found.append("/" + "/".join(str(name) for name in names[:wild]).strip("/"))
    return found


def wildcard(pattern: str, text: str) -> bool:
    """Plain text in which only `*` is special and matches anything; for shell commands and host names."""
    return _wildcard(pattern).fullmatch(text) is not None


@lru_cache(REMEMBERED)
def _wildcard(pattern: str) -> re.Pattern[str]:
    import re

    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.S)


class Pattern:
    __slots__ = ("paths", "text", "_regex")

    def __init__(self, text: str, paths: tuple[Path, ...]) -> None:
        self.text = text
        self.paths = paths
        self._regex: re.Pattern[str] | None = None

    @property
    def regex(self) -> re.Pattern[str]:
        if self._regex is None:
            import re  # it costs a millisecond or two at start-up, and overlap does not need it

            self._regex = re.compile("|".join(map(_path_regex, self.paths)) or "(?!)", re.S)
        return self._regex


@lru_cache(REMEMBERED)
def parse(text: str, is_file: bool = False) -> Pattern:
    if not text:
        raise ConfigError("the pattern is empty", hint="use . for everything here")
    if len(text) > MAX_LENGTH:
        raise ConfigError(f"a pattern may have at most {MAX_LENGTH} characters, this one has {len(text)}")
    paths: dict[Path, None] = {}
    for alternative in filter(None, expand_braces(text)):
        for path in _parse_path(alternative, is_file):
            if all(isinstance(name, str) or name is None or () not in name for name in path[1]):
                paths[path] = None  # a name with an empty class such as [z-a] matches nothing
            _check_number(text, len(paths))
    return Pattern(text, tuple(paths))


def _check_number(text: str, number: int) -> None:
    if number > MAX_ALTERNATIVES:
        raise ConfigError(f"the pattern {text[:60]!r} has more than {MAX_ALTERNATIVES} alternatives")


def expand_braces(text: str) -> list[str]:
    """The alternatives of `a{b,c}`: `ab` and `ac`."""
    if "{" not in text:
        return [text]
    done: dict[str, None] = {}
    todo = {text: None}
    while todo:
        current, _ = todo.popitem()
        group = _innermost_group(current)
        if group is None:
            done[current] = None
        else:
            for option in zip(group, group[1:], strict=False):
                todo[current[: group[0]] + current[option[0] + 1 : option[1]] + current[group[-1] + 1 :]] = None
        _check_number(text, len(done) + len(todo))
    return list(done)


def _innermost_group(text: str) -> list[int] | None:
    """The positions of the first `{`, `,`, ..., `}` that closes; braces without a comma are ordinary characters."""
    open_groups: list[list[int]] = []
    place = 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == "{":
            open_groups.append([place])
        elif char == "," and open_groups:
            open_groups[-1].append(place)
        elif char == "}" and open_groups:
            group = open_groups.pop()
            if len(group) > 1:
                return [*group, place]
        place += 1
    return None


def _parse_path(text: str, is_file: bool) -> list[Path]:
    """The names of one brace-free alternative. `**` inside a name or before `..` turns it into several paths."""
    results: list[tuple[int, list[str | Name | None]]] = [(-1 if text.startswith("/") else 0, [])]
    for part in text.split("/"):
        if not part:
            continue
        choices = _name_choices(part)
        if choices in ([["."]], [[""]]):
            continue
        if choices == [[".."]]:
            results = [parent for path in results for parent in _parents(*path)]
        else:
            results = [(up, _joined(names, choice)) for up, names in results for choice in choices]
        _check_number(text, len(results))
    return [_close(up, names, text.endswith("/"), is_file) for up, names in results]


def _joined(names: list[str | Name | None], more: list[str | Name | None]) -> list[str | Name | None]:
    return names + more[1:] if names[-1:] == [None] == more[:1] else names + more


def _parents(up: int, names: list[str | Name | None]) -> list[tuple[int, list[str | Name | None]]]:
    if not names:
        return [(up if up < 0 else up + 1, [])]
    if names[-1] is None:
        return [(up, names), *_parents(up, names[:-1])]
    return [(up, names[:-1])]


def _close(up: int, names: list[str | Name | None], is_directory: bool, is_file: bool) -> Path:
    if is_directory or all(isinstance(name, str) for name in names) and not is_file:
        names = [*names, None]
        while names[-2:] == [None, None]:
            names.pop()
    elif names[-1:] == [None]:
        names = [*names[:-1], _STAR, None]
    return up, tuple(names)


@lru_cache(REMEMBERED)
def _name_choices(part: str) -> list[list[str | Name | None]]:
    """`**` as a whole name is any number of names; within a name, `x**y` is `x*y` or `x*/**/*y`."""
    if _SPECIAL.isdisjoint(part):
        return [[part]]
    if part.strip("*") == "" and len(part) > 1:
        return [[None]]
    choices: list[tuple[list[str | Name | None], Name]] = [([], ())]
    """The names that are complete, and the name being built."""
    for piece, across in _pieces(part):
        choices = [(done, name + piece) for done, name in choices]
        if across:
            choices = [(done, (*name, None)) for done, name in choices] + [
                ([*done, (*name, None), None], _STAR) for done, name in choices
            ]
            _check_number(part, len(choices))
    return [[*done, _literal(name)] for done, name in choices]


def _pieces(part: str) -> list[tuple[Name, bool]]:
    """The parts of a name between its `**`, and whether a `**` follows each."""
    pieces: list[list[Ranges | None]] = [[]]
    for token in _tokens(part):
        if token == "**":
            pieces.append([])
        else:
            pieces[-1].append(None if isinstance(token, str) else token)
    return [(tuple(piece), number < len(pieces) - 1) for number, piece in enumerate(pieces)]


def _tokens(part: str) -> list[str | Ranges]:
    """`*`, `**`, or the possible characters at one position."""
    tokens: list[str | Ranges] = []
    place = 0
    while place < len(part):
        char = part[place]
        place += 1
        if char == "*":
            start = place - 1
            while place < len(part) and part[place] == "*":
                place += 1
            tokens.append("*" if place - start == 1 else "**")
        elif char == "?":
            tokens.append(_ANY)
        elif char == "[" and (end := _class_end(part, place)):
            tokens.append(_class(part[place:end]))
            place = end + 1
        elif char == "\\":
            if place < len(part):
                tokens.append(((ord(part[place]),) * 2,))
            place += 1
        else:
            tokens.append(((ord(char),) * 2,))
    return tokens


def _class_end(part: str, start: int) -> int:
    """The position of the `]`, or 0 when there is none and the `[` is an ordinary character."""
    first = start + 1 if part.startswith(("!", "^"), start) else start
    return max(part.find("]", first + 1), 0)


def _class(inside: str) -> Ranges:
    negated = inside[0] in "!^"
    chars = inside[negated:]
    ranges = []
    place = 0
    while place < len(chars):
        if place + 2 < len(chars) and chars[place + 1] == "-":
            ranges.append((ord(chars[place]), ord(chars[place + 2])))
            place += 3
        else:
            ranges.append((ord(chars[place]), ord(chars[place])))
            place += 1
    merged = _merge(ranges)
    return _common(_ANY, _complement(merged) if negated else merged)


def _merge(ranges: list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if low > high:
            continue
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    edges = [0, *(edge for low, high in ranges for edge in (low - 1, high + 1)), _LAST]
    return tuple((low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low <= high)


def _common(a: Ranges, b: Ranges) -> Ranges:
    return tuple((max(p[0], q[0]), min(p[1], q[1])) for p in a for q in b if max(p[0], q[0]) <= min(p[1], q[1]))


def _literal(name: Name) -> str | Name:
    """A name that can only be one text becomes that text."""
    if not all(place is not None and len(place) == 1 and place[0][0] == place[0][1] for place in name):
        return name
    return "".join(chr(place[0][0]) for place in name if place)


def _paths_meet(a: Path, b: Path) -> bool:
    return a[0] == b[0] and _meet(a[1], b[1], _names_meet)


def _names_meet(a: str | Name, b: str | Name) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    return _wild_names_meet(a, b)


@lru_cache(REMEMBERED)
def _wild_names_meet(a: str | Name, b: str | Name) -> bool:
    a, b = _places(a), _places(b)
    if None in a and None in b or min(len(name) for name in (a, b) if None not in name) > 2:
        return _meet(a, b, _places_meet)
    # One side is so short that the only names in common may be `.` and `..`, which no file can have.
    fixed, other = (a, b) if None not in a else (b, a)
    return any(
        _meet((*fixed[:place], possible, *fixed[place + 1 :]), other, _places_meet)
        for place in range(len(fixed))
        if (possible := _without_dot(fixed[place] or ()))
    )


def _places(name: str | Name) -> Name:
    return tuple(((ord(char), ord(char)),) for char in name) if isinstance(name, str) else name


def _places_meet(a: Ranges, b: Ranges) -> bool:
    return any(p[0] <= q[1] and q[0] <= p[1] for p in a for q in b)


def _without_dot(ranges: Ranges) -> Ranges:
    return _common(ranges, ((0, _DOT - 1), (_DOT + 1, _LAST)))


def _meet(a: Sequence[object], b: Sequence[object], agree: Callable[..., bool]) -> bool:
    """Whether two sequences, in which None stands for any number of items, have an instance in common."""
    if None not in b:
        a, b = b, a
    if None not in b:
        return len(a) == len(b) and all(map(agree, a, b))
    if None in a:
        return _heads_meet(a, b, agree) and _heads_meet(a[::-1], b[::-1], agree)
    return _fits(b, a, agree)


def _heads_meet(a: Sequence[object], b: Sequence[object], agree: Callable[..., bool]) -> bool:
    for one, other in zip(a, b, strict=False):
        if one is None or other is None:
            return True
        if not agree(one, other):
            return False
    return True


def _fits(starred: Sequence[object], fixed: Sequence[object], agree: Callable[..., bool]) -> bool:
    """Whether a sequence with stars can have the length of a fixed one and agree with it at every place."""
    place = star = resume = 0
    back = -1
    while place < len(fixed):
        if star < len(starred) and starred[star] is None:
            back, resume = star, place
            star += 1
        elif star < len(starred) and agree(starred[star], fixed[place]):
            star += 1
            place += 1
        elif back >= 0:
            resume += 1
            star, place = back + 1, resume
        else:
            return False
    return all(item is None for item in starred[star:])


_INSIDE = r"(?!/|\.\.(?:/|\Z))"
"""What a relative pattern matches must not start at the root or with `..`."""


def _path_regex(path: Path) -> str:
    up, names = path
    inside = "" if up < 0 else _INSIDE
    head = "/" if up < 0 else r"\.\./" * up
    if names == (None,):
        return f"{head.removesuffix('/')}(?:/{inside}.*)?" if up > 0 else f"{head}{inside}.*"
    covers = names[-1] is None
    parts = [name if name is None else _name_regex(name) + "/" for name in (names[:-1] if covers else names)]
    body = _starred(parts, "(?:[^/]+/)*").removesuffix("/")
    return head + inside + body + "(?:/.*)?" * covers


def _name_regex(name: str | Name) -> str:
    import re

    if isinstance(name, str):
        return re.escape(name)
    return "(?=[^/])" + _starred([place if place is None else _place_regex(place) for place in name], "[^/]*")


def _place_regex(ranges: Ranges) -> str:
    if not ranges:
        return "(?!)"
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"


def _starred(parts: list[str | None], star: str) -> str:
    """Join regexes, with `star` for None. Between two stars the leftmost fit is as good as any other, so that choice
    is atomic and never reconsidered: otherwise `*a*a*a*b` would take exponential time."""
    pieces = [""]
    for part in parts:
        if part is None:
            pieces.append("")
        else:
            pieces[-1] += part
    first, *middle = pieces
    last = star + middle.pop() if middle else ""
    return first + "".join(f"(?>{star}?{piece})" for piece in middle) + last

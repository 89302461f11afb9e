"""The rules of a `.gitignore` file, as data: which paths they leave out. Pure and light.

The rules of one file become a few regular expressions, one per run of rules of the same sign, tried from the last to
the first: a walk over 100,000 files tries one or two of them per name. Stars are compiled so that no pattern, however
hostile, backtracks more than once over a name.
"""

import re


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
        elif char == "[" and (end := _class_end(name, place)):
            parts[-1] += _class(name[place:end])
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


def _class_end(name: str, start: int) -> int:
    place = start + (name[start : start + 1] in ("!", "^")) + 1
    return max(0, name.find("]", place))


def _class(inside: str) -> str:
    negated = inside[0] in "!^"
    members = re.sub(r"\\?([\\\]\[^&~|])", r"\\\1", inside[negated:])
    return f"(?!/)[{'^' if negated else ''}{members}]"

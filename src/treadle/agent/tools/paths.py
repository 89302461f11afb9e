"""Paths as a model writes them, and as it can read them back.

A name may hold any byte except `/` and NUL, but what a model reads must be printable text. `show` writes unprintable
bytes of a name as escapes, and `resolve` reads such an escape back when that is the file that exists.
"""

import os
import re
from pathlib import Path

from treadle.errors import ToolError

_ODD = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_ODD_OR_ESCAPE = _ODD + r"|\\(?=x)"


def resolve(cwd: Path, text: str) -> Path:
    """Absolute, relative to `cwd`, with `~`, `..` and symlinks resolved, also for a file that does not exist yet."""
    if not text.strip():
        raise ToolError("the path is empty")
    if "\0" in text:
        raise ToolError("the path contains a NUL character")
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    path = os.path.join(cwd, text)
    if "\\x" in text and not os.path.lexists(path):
        meant = re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), os.fsencode(path))
        if b"\0" not in meant and os.path.lexists(meant):
            path = os.fsdecode(meant)
    try:
        return Path(os.path.realpath(path))
    except OSError as error:  # such as a link in /proc that may not be read
        raise ToolError(f"{text}: cannot be followed: {error.strerror}") from None


class Resolved:
    """`resolve` for one tool call: a path is resolved once, so that what is judged is what is opened."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._known: dict[str, Path] = {}

    def __call__(self, text: str) -> Path:
        if text not in self._known:
            self._known[text] = resolve(self._cwd, text)
        return self._known[text]


def show(path: str | Path) -> str:
    """The path as text for a model or an event: one line, valid UTF-8."""
    text = str(path)
    odd = not text.isprintable() and re.search(_ODD, text)
    return re.sub(_ODD_OR_ESCAPE, _escape, text) if odd else text


def _escape(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))


def shown(path: Path, cwd: Path) -> str:
    """As short as possible: relative to the working directory if it lies inside."""
    return show(path.relative_to(cwd)) if path.is_relative_to(cwd) and path != cwd else show(path)


def missing(path: Path) -> ToolError:
    """Reports a missing file, with the names that were perhaps meant."""
    from difflib import get_close_matches

    parent = path.parent
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    what = f"{show(path)} does not exist"
    if parent != path.parent:
        what += f"; the deepest directory that does is {show(parent)}"
    wanted = path.relative_to(parent).parts[0]
    try:
        names = os.listdir(parent)[:10_000]
    except OSError:
        names = []
    near = {name.lower(): name for name in names}
    meant = [near[low] for low in get_close_matches(wanted.lower(), near, n=3, cutoff=0.6)]
    return ToolError(
        what, hint="did you mean " + " or ".join(show(parent / name) for name in meant) + "?" if meant else None
    )

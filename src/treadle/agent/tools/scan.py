"""Search files without ripgrep: a child process that prints what `rg --json` would print, in the order of paths.

It is a separate process because a regular expression can run for ever and cannot be interrupted from within.
Light: run as `python -I -S`, with the request as JSON in its last argument.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from treadle.io.files import read_at_most
from treadle.io.walking import Walk

MAX_FILE = 64 << 20
_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "word": r"\w", "punct": r"!-/:-@\[-`{-~", "blank": r" \t", "xdigit": "0-9A-Fa-f", "cntrl": r"\x00-\x1f\x7f",
    "print": " -~", "graph": "!-~", "ascii": r"\x00-\x7f",
}  # fmt: skip
_WORDS = {r"\<": r"\b(?=\w)", r"\>": r"\b(?<=\w)", r"\z": r"\Z"}
_LOOKS_AROUND = re.compile(r"\(\?<?[=!]|\\[AZ]")


def compile_pattern(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    """A pattern as ripgrep reads it, where Python can; raises re.error where it cannot."""
    text = re.sub(r"\[:(\w+):\]", lambda found: _POSIX.get(found[1], found[0]), pattern)
    text = re.sub(r"\\.", lambda found: _WORDS.get(found[0], found[0]), text, flags=re.S)
    text = re.sub(r"\(\?<(?![=!])", "(?P<", text)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return re.compile(text, re.M | (re.I if ignore_case else 0))
        except FutureWarning as warning:
            raise re.error(f"{warning}") from None


def main() -> None:
    import json

    request = json.loads(sys.argv[-1])
    try:
        pattern = compile_pattern(request["pattern"], request["ignore_case"])
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        sys.exit(2)
    out = sys.stdout.buffer
    for path in files(request):
        for kind, data in search(path, pattern, request["context"]):
            out.write(json.dumps({"type": kind, "data": data}).encode() + b"\n")
    out.flush()


def files(request: dict[str, Any]) -> Iterator[str]:
    root = request["root"]
    if not os.path.isdir(root):
        yield root
        return
    name = re.compile(request["name"], re.S) if request["name"] else None
    for relative, entry in Walk(root, ignore=not request["include_ignored"]):
        if name is None or name.fullmatch(relative):
            yield entry.path


def read(path: str) -> bytes | None:
    """The file's bytes with plain line ends; None for what is not searched: not a file, too big, binary, unreadable."""
    try:
        if os.lstat(path).st_size > MAX_FILE:
            return None
        data = read_at_most(path, MAX_FILE + 1, follow=False)
    except OSError:
        return None
    if len(data) > MAX_FILE or b"\0" in data:
        return None
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def search(path: str, pattern: re.Pattern[str], context: int) -> Iterator[tuple[str, dict[str, Any]]]:
    data = read(path)
    if not data:
        return
    text = data.decode("utf-8", "surrogateescape")
    lines = matching_lines(text, pattern)
    first = next(lines, None)
    if first is None:
        return
    where = _field(path)
    yield "begin", {"path": where}
    matches = [first, *lines]
    if context:
        yield from _with_context(text, matches, context, where)
    else:
        number, counted = 1, 0
        for start, end in matches:
            number += text.count("\n", counted, start)
            counted = start
            yield "match", {"path": where, "lines": _field(text[start:end]), "line_number": number}
    yield "end", {"path": where, "binary_offset": None}


def matching_lines(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Start and end of each line that matches by itself, without its newline.

    The whole text is searched, which skips most of it at full speed; each line found is then matched alone. A match
    that spans several lines does not count, and cannot hide a line that matches, unless the pattern has a
    lookaround: then every line is matched alone.
    """
    looks_around = _LOOKS_AROUND.search(pattern.pattern)
    place = 0
    while place < len(text):
        if not looks_around:
            found = pattern.search(text, place)
            if found is None:
                return
            place = text.rfind("\n", place, found.start()) + 1 or place
            if place == len(text):
                return  # after the last newline there is no line
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        if pattern.search(text[place:end]):
            yield place, end
        place = end + 1


def _with_context(
    text: str, matches: list[tuple[int, int]], context: int, where: dict[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    hits: list[int] = []
    number, counted = 0, 0
    for start, _ in matches:
        number += text.count("\n", counted, start)
        counted = start
        hits.append(number)
    is_hit = set(hits)
    done = 0
    for hit in hits:
        for number in range(max(done, hit - context), min(len(lines), hit + context + 1)):
            kind = "match" if number in is_hit else "context"
            yield kind, {"path": where, "lines": _field(lines[number]), "line_number": number + 1}
            done = number + 1


def _field(text: str) -> dict[str, str]:
    try:
        text.encode()
    except UnicodeEncodeError:
        import base64

        return {"bytes": base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()}
    return {"text": text}

"""HTML as text for a model to read: headings, lists, links and preformatted text survive. Pure, and linear in time.

The standard library's parser takes quadratic time on hostile pages, so tags are found here with plain searches that
never look at the same character twice. It is a reader, not a sanitiser.
"""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

_BLOCKS = {
    "address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption",
    "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option",
    "p", "pre", "section", "summary", "table", "tr", "ul",
}  # fmt: skip
_SPACED = _BLOCKS - {"br", "li", "tr", "dt", "dd", "option", "summary", "div"}
_SKIPPED = {"script", "style", "noscript", "template", "svg", "iframe", "textarea", "object", "canvas"}
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9-]*)")
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""", re.I)


def to_text(page: str, base: str = "") -> str:
    reader = _Reader(base)
    place = 0
    lower = page.lower()
    if len(lower) != len(page):  # a few letters have longer lower-case forms; positions must agree
        lower = page
    while place < len(page):
        start = page.find("<", place)
        if start < 0:
            reader.text(page[place:])
            break
        reader.text(page[place:start])
        place = _markup(page, lower, start, reader)
    return reader.result()


def _markup(page: str, lower: str, start: int, reader: _Reader) -> int:
    """What begins with `<` at `start`; returns where to go on. What is never closed reaches to the end."""
    if page.startswith("<!--", start):
        return _after(page, "-->", start + 4)
    tag = _TAG.match(page, start)
    if tag is None:
        if page.startswith(("<!", "<?", "</"), start):
            return _after(page, ">", start)
        reader.text("<")
        return start + 1
    end = _after(page, ">", tag.end())
    name = tag[1].lower()
    closing = page.startswith("</", start)
    if name in _SKIPPED and not closing:
        return _after(lower, ">", _before(lower, f"</{name}", end))
    reader.tag(name, closing, page[tag.end() : end])
    return end


def _after(page: str, what: str, place: int) -> int:
    found = page.find(what, place)
    return len(page) if found < 0 else found + len(what)


def _before(page: str, what: str, place: int) -> int:
    found = page.find(what, place)
    return len(page) if found < 0 else found


class _Reader:
    def __init__(self, base: str) -> None:
        self._base = base
        self._out: list[str] = []
        self._line: list[str] = []
        self._pre = 0
        self._links: list[str] = []
        self._prefix = ""

    def text(self, raw: str) -> None:
        if not raw:
            return
        text = html.unescape(raw)
        if self._pre:
            *lines, last = text.split("\n")
            for line in lines:
                self._line.append(line)
                self._break(keep=True)
            self._line.append(last)
        else:
            self._line.append(re.sub(r"\s+", " ", text))

    def tag(self, name: str, closing: bool, attributes: str) -> None:
        if name in _BLOCKS:
            self._break(blank=name in _SPACED)
        if name == "pre":
            self._pre = max(0, self._pre + (-1 if closing else 1))
        elif name == "a":
            self._link(closing, attributes)
        elif name in ("td", "th") and not closing and any(part.strip() for part in self._line):
            self._line.append(" | ")
        elif name == "li" and not closing:
            self._prefix = "- "
        elif name in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self._prefix = "" if closing else "#" * int(name[1]) + " "
        elif name == "title" and closing:
            self._break(blank=True)

    def _link(self, closing: bool, attributes: str) -> None:
        if not closing:
            found = _HREF.search(attributes)
            target = html.unescape(found[1] or found[2] or found[3] or "") if found else ""
            self._links.append(target)
            if target and not target.startswith(("#", "javascript:")):
                self._line.append("[")
        elif self._links:
            target = self._links.pop()
            if target and not target.startswith(("#", "javascript:")):
                self._line.append(f"]({_joined(self._base, target)})")

    def _break(self, blank: bool = False, keep: bool = False) -> None:
        line = "".join(self._line)
        self._line = []
        line = line.rstrip() if keep or self._pre else re.sub(r"  +", " ", line).strip()
        if line or keep:
            self._out.append(self._prefix + line)
            self._prefix = ""
        if blank and self._out and self._out[-1]:
            self._out.append("")

    def result(self) -> str:
        self._break()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._out)).strip("\n")


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target.strip())
    except ValueError:
        return target

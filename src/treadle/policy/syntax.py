"""A shell command as tree-sitter reads it: every simple command in it, with its words, however nested. Pure.

tree-sitter finds where commands, words, substitutions and redirections begin and end; this module removes the quotes.
If the grammar cannot read part of a command, all of it is `Lost`: we do not guess what bash would do with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 200


class Word(msgspec.Struct):
    text: str = ""
    raw: str = ""
    dynamic: bool = False
    """Only known at run time: variables, substitutions."""
    glob: bool = False
    """The shell may expand it to other words."""


class SimpleCommand(msgspec.Struct):
    """One simple command."""

    words: list[Word] = []
    assignments: list[Word] = []
    source: str = ""
    document: bool = False
    """Whether it has a here-document or here-string."""


class Redirection(msgspec.Struct):
    operator: str
    target: Word


class Inner(msgspec.Struct):
    """Text between backticks, which is a command of its own once its escapes are removed."""

    text: str


class Lost(Exception):
    pass


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")
_EXPANSIONS = {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution"}
_WORDS = {
    *("word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number", "$"),
    *("brace_expression", "extglob_pattern", "regex", "special_variable_name", "variable_name", "subscript", "array"),
    *_EXPANSIONS,
}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_EVALUATED = {"expansion", "arithmetic_expansion", "subscript"}
_KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "fi", "done"}
_STRUCTURES = {"case", "esac", "for", "select", "function", "in", ";;"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_BLANKS = b" \t\n"
"""The only characters that bash treats as blanks; others that look blank are part of a word."""
_EACH_BLANK = (b" ", b"\t", b"\n")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_WHOLE = {"string", "heredoc_body", "heredoc_redirect", "expansion", "regex", "translated_string", "ansi_c_string"}
"""Nodes that are taken as one piece of text, because blanks in them have a meaning."""
_ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"},
    **{"\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.)|(.))", re.S)


_ASCII = bytes(byte if byte < 0x80 else ord("%") for byte in range(256))
"""Replaces bytes beyond ASCII with `%`. The grammar's scanner passes characters to C functions made for single
bytes, and one beyond U+10000 makes them read foreign memory. To a shell such a byte is, like `%`, part of a word,
never of a name."""


def read(command: str) -> Iterator[SimpleCommand | Redirection | Inner]:
    """The commands, redirections and backtick texts in it, in the order in which they are written. Raises Lost."""
    data = command.encode("utf-8", "surrogateescape")
    root = _parser().parse(data.translate(_ASCII)).root_node
    if root.has_error:
        raise Lost("its syntax")
    walk = _Walk(data)
    walk.check(root, 0, len(data))
    yield from walk.visit(root, 0)


def runs_in_subscript(text: str) -> bool:
    """Whether a shell that evaluates this text, quoted or not, would run a command for a subscript: `a[$(cmd)]`."""
    return bool(re.search(r"\w\[[^]]*(\$\(|`)", re.sub(r"['\"\\]", "", text)))


def _substitutions(node: Node) -> Iterator[Node]:
    if node.type in ("command_substitution", "arithmetic_expansion"):
        yield node
    for child in node.children:
        yield from _substitutions(child)


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def text(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "surrogateescape")

    def check(self, root: Node, start: int, end: int) -> None:
        """The grammar silently skips some text, such as `\\ ` before a word: make sure that nothing was left out."""
        todo = [(root, start, end)]
        while todo:
            node, start, end = todo.pop()
            for child in node.children:
                gap = self.data[start : child.start_byte]
                if not _BLANK.fullmatch(gap) and not (
                    gap.strip(_BLANKS) == b"-" and node.type == "redirected_statement"
                ):
                    raise Lost("its syntax")
                start = child.end_byte
                if child.type == "ansi_c_string" and _ansi_end(self.data, child.start_byte + 2) + 1 != start:
                    raise Lost("a string with escapes")
                if child.children and child.type not in _WHOLE:
                    todo.append((child, child.start_byte, child.end_byte))
            if not _BLANK.fullmatch(self.data[start:end]):
                raise Lost("its syntax")

    def enter(self, node: Node, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Lost("it is too deep")
        if node.type in _EVALUATED and self.hides(node):
            raise Lost("what an expansion runs")

    def hides(self, node: Node) -> bool:
        """Whether a shell may run more in it than the grammar sees. In arithmetic, subscripts and an expansion between
        double quotes, single quotes are ordinary characters: `echo "${x:-'$(cmd)'}"` runs it."""
        found = list(_substitutions(node))
        ticked = sum(self.source(one).startswith("`") for one in found)
        plain = re.sub(r"\\[`$\\]", "", self.source(node))
        return len(re.findall(r"\$[(\[]", plain)) > len(found) - ticked or plain.count("`") > 2 * ticked

    def visit(self, node: Node, depth: int) -> Iterator[SimpleCommand | Redirection | Inner]:
        self.enter(node, depth)
        match node.type:
            case "comment":
                return
            case "redirected_statement":
                yield from self.redirected(node, depth)
            case "command" | "declaration_command" | "unset_command":
                yield from self.command(node, [], depth)
            case "variable_assignment" | "variable_assignments":
                yield from self.inside(node, depth)
                yield SimpleCommand(assignments=list(self.assigned(node)), source=self.source(node))
            case "file_redirect":
                yield from self.redirection(node, depth)
            case "heredoc_redirect" | "herestring_redirect":
                yield from self.inside(node, depth)
                yield from self.document(node)
            case "test_command" | "compound_statement" | "c_style_for_statement" | "arithmetic_expansion":
                if runs_in_subscript(self.source(node)):
                    raise Lost("a subscript that runs a command")
                if self.source(node).startswith("((") and self.hides(node):
                    raise Lost("what an expansion runs")
                for child in node.children:
                    yield from self.visit(child, depth + 1)
            case "command_substitution" if self.data[node.start_byte : node.end_byte].strip(_BLANKS).startswith(b"`"):
                raw = self.text(node.start_byte, node.end_byte).strip(" \t\n")
                yield Inner(text=re.sub(r"\\([`\\$])", r"\1", raw[1:-1]))
            case _:
                for child in node.children:
                    yield from self.visit(child, depth + 1)

    def document(self, node: Node) -> Iterator[Inner]:
        """The commands in a here-document, which the shell runs unless its end is quoted. The grammar sees no backticks
        there, and not every `$(`."""
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if start is None or re.search(r"['\"\\]", self.source(start)):
            return
        for body in (child for child in node.children if child.type == "heredoc_body"):
            text = self.text(body.start_byte, body.end_byte)
            plain = re.sub(r"\\[`$\\]", "", text)
            if len(re.findall(r"\$[(\[]", plain)) > len(list(_substitutions(body))):
                raise Lost("what a here-document runs")
            quoted = re.findall(r"`((?:[^`\\]|\\.)*)`", text, re.S)
            if plain.count("`") != 2 * len(quoted):
                raise Lost("what a here-document runs")
            yield from (Inner(text=re.sub(r"\\([`\\$])", r"\1", one)) for one in quoted)

    def source(self, node: Node) -> str:
        return self.text(node.start_byte, node.end_byte).strip(" \t\n")

    def inside(self, node: Node, depth: int) -> Iterator[SimpleCommand | Redirection | Inner]:
        """The commands inside this node's words."""
        self.enter(node, depth)
        for child in node.children:
            if child.type in _SUBSTITUTIONS:
                yield from self.visit(child, depth + 1)
            elif child.type in ("pipeline", "list", "command", "file_redirect", "redirected_statement"):
                yield from self.visit(child, depth + 1)
            else:
                yield from self.inside(child, depth + 1)

    def redirected(self, node: Node, depth: int) -> Iterator[SimpleCommand | Redirection | Inner]:
        """`a > f b` is the command `a b`: words after a redirection's target belong to the command."""
        bodies = [child for child in node.children if not child.type.endswith("_redirect")]
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        for redirect in redirects:
            yield from self.visit(redirect, depth + 1)
        surplus = [word for redirect in redirects for word in self.surplus(redirect)]
        for before, after in zip(node.children, node.children[1:], strict=False):
            if (
                self.text(before.end_byte, after.start_byte).strip(" \t\n") == "-"
            ):  # the grammar drops it, as in `a - <<E`
                surplus.insert(0, Word(text="-", raw="-"))
        document = any(redirect.type != "file_redirect" for redirect in redirects)
        if len(bodies) == 1 and bodies[0].type == "command":
            yield from self.command(bodies[0], surplus, depth + 1, self.source(node), document)
            return
        if surplus and not bodies:  # `> f a b` runs a
            yield SimpleCommand(words=surplus, source=self.source(node), document=document)
        elif surplus:
            raise Lost("words after a redirection")
        for body in bodies:
            yield from self.visit(body, depth + 1)

    def command(
        self, node: Node, surplus: list[Word], depth: int, source: str = "", document: bool = False
    ) -> Iterator[SimpleCommand | Redirection | Inner]:
        yield from self.inside_command(node, depth)
        found = SimpleCommand(words=[], assignments=[], source=source or self.source(node), document=document)
        pieces: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment" and not pieces and node.type == "command":
                found.assignments.append(self.word([child]))
            elif child.type.endswith("_redirect"):
                surplus = [*surplus, *self.surplus(child)]
                found.document = found.document or child.type != "file_redirect"
            elif child.type != "comment":
                pieces.append(child)
        found.words = [*self.words(pieces), *surplus]
        while found.words and not found.assignments and found.words[0].raw in _KEYWORDS:
            found.words.pop(0)  # the grammar takes some keywords for programs, as in `! { a; }`
        while node.type == "command" and found.words and _ASSIGNMENT.match(found.words[0].raw):
            found.assignments.append(found.words.pop(0))
        if found.words and found.words[0].raw in _STRUCTURES:
            raise Lost(f"`{found.words[0].raw}`")
        if found.words or found.assignments:
            yield found

    def inside_command(self, node: Node, depth: int) -> Iterator[SimpleCommand | Redirection | Inner]:
        for child in node.children:
            if child.type.endswith("_redirect"):
                yield from self.visit(child, depth + 1)
            elif child.type in _SUBSTITUTIONS:
                yield from self.visit(child, depth + 1)
            else:
                yield from self.inside(child, depth + 1)

    def surplus(self, redirect: Node) -> list[Word]:
        parts = [child for child in redirect.children if child.type in _WORDS]
        if redirect.type == "file_redirect":
            return self.words(parts)[1:]
        return self.words(parts) if redirect.type == "heredoc_redirect" else self.words(parts)[1:]

    def redirection(self, node: Node, depth: int) -> Iterator[SimpleCommand | Redirection | Inner]:
        yield from self.inside(node, depth)
        words = self.words([child for child in node.children if child.type in _WORDS])
        operator = next((self.source(child) for child in node.children if set(self.source(child)) & set("<>")), ">")
        operator = next(self.source(c) for c in node.children if c.type not in _WORDS | {"file_descriptor"}) or operator
        if words:
            yield Redirection(operator, words[0])
        elif not operator.endswith("-"):
            raise Lost("a redirection to nothing")

    def assigned(self, node: Node) -> Iterator[Word]:
        if node.type == "variable_assignment":
            yield self.word([node])
        else:
            for child in node.children:
                yield from self.assigned(child)

    def words(self, nodes: list[Node]) -> list[Word]:
        """Adjacent nodes form one word."""
        groups: list[list[Node]] = []
        for node in nodes:
            if groups and groups[-1][-1].end_byte == node.start_byte and not self.begins_with_blank(node):
                groups[-1].append(node)
            else:
                groups.append([node])
        return [self.word(group) for group in groups]

    def begins_with_blank(self, node: Node) -> bool:
        return self.data[node.start_byte : node.start_byte + 1] in _EACH_BLANK

    def word(self, nodes: list[Node]) -> Word:
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        while self.data[start : start + 1] in _EACH_BLANK:
            start += 1
        skipped: dict[int, int] = {}
        for node in nodes:
            self.expansions(node, skipped)
        word = Word(raw=self.text(start, end))
        self.unquote(word, start, end, skipped)
        word.glob = word.glob or _BRACES.search(word.raw) is not None
        return word

    def expansions(self, node: Node, found: dict[int, int]) -> None:
        if node.type in _EXPANSIONS:
            start = node.start_byte
            while self.data[start : start + 1] in _EACH_BLANK:
                start += 1
            found[start] = node.end_byte
            return
        for child in node.children:
            self.expansions(child, found)

    def unquote(self, word: Word, at: int, end: int, skipped: dict[int, int]) -> None:
        out: list[bytes] = []
        quoted = False
        while at < end:
            char = self.data[at : at + 1]
            if at in skipped:
                out.append(self.data[at : skipped[at]])
                at = skipped[at]
                word.dynamic = True
            elif char == b"\\":
                escaped = self.data[at + 1 : at + 2]
                if quoted and escaped not in (b"$", b"`", b'"', b"\\", b"\n"):
                    out.append(char)
                out.append(b"" if escaped == b"\n" else escaped)
                at += 2
            elif char == b'"':
                quoted = not quoted
                at += 1
            elif quoted:
                out.append(char)
                at += 1
            elif char == b"'":
                close = self.data.find(b"'", at + 1, end)
                if close < 0:
                    raise Lost("a quote is not closed")
                out.append(self.data[at + 1 : close])
                at = close + 1
            elif self.data.startswith(b"$'", at):
                close = _ansi_end(self.data, at + 2)
                out.append(_ansi(self.data[at + 2 : close]))
                at = close + 1
            elif self.data.startswith(b'$"', at):
                at += 1
            else:
                word.glob = word.glob or char in (b"*", b"?", b"[")
                out.append(char)
                at += 1
        if quoted or at != end:
            raise Lost("a quote is not closed")
        word.text = b"".join(out).decode("utf-8", "surrogateescape")


def _ansi_end(data: bytes, at: int) -> int:
    while data[at : at + 1] != b"'":
        if at >= len(data):
            raise Lost("a quote is not closed")
        at += 2 if data[at : at + 1] == b"\\" else 1
    return at


def _ansi(data: bytes) -> bytes:
    def plain(found: re.Match[str]) -> str:
        octal, short, small, big, control, other = found.groups()
        if octal:
            return chr(int(octal, 8) & 0xFF)
        if short:
            return chr(int(short, 16))
        if small or big:
            return chr(int(small or big, 16)).encode().decode("latin-1")
        if control:
            return chr(ord(control) & 0x1F)
        return _ESCAPES.get(other, "\\" + other)

    text = _ESCAPE.sub(plain, data.decode("latin-1"))
    return text.partition("\0")[0].encode("latin-1", "replace")

"""What a shell command would run and write, as far as that can be known without running it. Pure.

`read("cd a && sudo rm x > log")` gives one Part for every simple command in it, however deep: joined by any operator,
in subshells, functions and `case`, in `$(...)` and backticks, behind `sudo`, `env`, `xargs`, `bash -c '...'`. If it
cannot follow something (a command whose name is a variable, a shell that reads its input), the whole script is not
`understood`, and the parts are a guess that errs towards finding too many.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from treadle.light import TYPE_CHECKING, regex
from treadle.policy import programs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


# A shell command as tree-sitter reads it: every simple command in it, with its words, however nested. Pure.
#
# tree-sitter finds where commands, words, substitutions and redirections begin and end; the code here removes
# the quotes. If the grammar cannot read part of a command, all of it is `Lost`: we do not guess what bash would do with
# it.

SYNTAX_DEPTH = 200


# Plain classes: a hook runs this for every tool call, and msgspec costs more than the rest of it.


class Word:
    __slots__ = ("text", "raw", "dynamic", "glob")

    def __init__(self, text: str = "", raw: str = "", dynamic: bool = False, glob: bool = False) -> None:
        """`dynamic`: only known at run time (variables, substitutions); `glob`: the shell may expand it to others."""
        self.text, self.raw, self.dynamic, self.glob = text, raw, dynamic, glob


class SimpleCommand:
    """One simple command."""

    __slots__ = ("words", "assignments", "source", "document")

    def __init__(
        self,
        words: list[Word] | None = None,
        assignments: list[Word] | None = None,
        source: str = "",
        document: bool = False,
    ) -> None:
        """`document`: whether it has a here-document or here-string."""
        self.words, self.assignments = words or [], assignments or []
        self.source, self.document = source, document


class Redirection:
    def __init__(self, operator: str, target: Word) -> None:
        self.operator, self.target = operator, target


class Inner:
    """Text between backticks, which is a command of its own once its escapes are removed."""

    def __init__(self, text: str) -> None:
        self.text = text


class Lost(Exception):
    pass


@cache
def _parser() -> Parser:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    from tree_sitter import Language, Parser

    # The package itself imports importlib.resources, which costs a hook more than the grammar does.
    package = PathFinder.find_spec("tree_sitter_bash")
    assert package
    grammar = PathFinder.find_spec("_binding", package.submodule_search_locations)
    assert grammar and grammar.loader
    binding = module_from_spec(grammar)
    grammar.loader.exec_module(binding)
    return Parser(Language(binding.language()))


_BRACES = regex(r"\{[^{}]*(,|\.\.)[^{}]*\}")
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
_PLAIN = regex(r"[A-Za-z./][\w./-]*( (-[\w./:,@+=-]*|[\w./:,@+][\w./:,@+-]*))*", re.A)
"""Words without any character that means something to a shell: one simple command. Loading the grammar costs as much
as all else that a hook does."""
_NOT_PLAIN = {*_KEYWORDS, *_STRUCTURES, "time", "coproc"}
_NOT_PLAIN |= {"export", "declare", "typeset", "readonly", "local", "unset", "unsetenv"}
"""Words after which the grammar reads something else than a simple command."""
_WORD_ASSIGNMENT = regex(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_BLANKS = b" \t\n"
"""The only characters that bash treats as blanks; others that look blank are part of a word."""
_EACH_BLANK = (b" ", b"\t", b"\n")
_BLANK = regex(rb"(?:[ \t\n]|\\\n)*")
_WHOLE = {"string", "heredoc_body", "heredoc_redirect", "expansion", "regex", "translated_string", "ansi_c_string"}
"""Nodes that are taken as one piece of text, because blanks in them have a meaning."""
_ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"},
    **{"\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_ESCAPE = regex(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.)|(.))", re.S)


_ASCII = bytes(byte if byte < 0x80 else ord("%") for byte in range(256))
"""Replaces bytes beyond ASCII with `%`. The grammar's scanner passes characters to C functions made for single
bytes, and one beyond U+10000 makes them read foreign memory. To a shell such a byte is, like `%`, part of a word,
never of a name."""


def simple_commands(command: str) -> Iterator[SimpleCommand | Redirection | Inner]:
    """The commands, redirections and backtick texts in it, in the order in which they are written. Raises Lost."""
    if _PLAIN.fullmatch(command) and command.partition(" ")[0] not in _NOT_PLAIN:
        yield SimpleCommand([Word(word, word) for word in command.split(" ")], source=command)
        return
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
        if depth > SYNTAX_DEPTH:
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
        while node.type == "command" and found.words and _WORD_ASSIGNMENT.match(found.words[0].raw):
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


MAX_LENGTH = 64 * 1024
MAX_DEPTH = 8
MAX_ACTIONS = 16


class Part:
    """One simple command."""

    def __init__(
        self,
        words: tuple[str, ...],
        assignments: tuple[str, ...] = (),
        source: str = "",
        wrapper: bool = False,
        globs: tuple[str, ...] = (),
        certain: bool = True,
    ) -> None:
        self.words = words
        """The program and its arguments, without quotes and redirections."""
        self.assignments = assignments
        """Changes to its environment."""
        self.source = source
        """The command as it was written, if it stood on its own."""
        self.wrapper = wrapper
        """It adds nothing to what the other parts can do, so allow rules need not cover it."""
        self.globs = globs
        """Its words that the shell expands."""
        self.certain = certain
        """Whether every word is known: no variable, substitution or braces, and no input for an interpreter."""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def full(self) -> str:
        return " ".join((*self.assignments, *self.words))

    @property
    def plain(self) -> bool:
        """Whether its changes to the environment cannot change what it does."""
        return all(changes_nothing(assignment.partition("=")[0]) for assignment in self.assignments)

    @property
    def name(self) -> str:
        return posixpath.basename(self.words[0])


class ShellScript:
    def __init__(self, command: str, reader: _Reader) -> None:
        self.parts = tuple({tuple(vars(part).values()): part for part in reader.parts}.values())
        self.reads = tuple(dict.fromkeys(reader.places(reader.reads)))
        self.writes = tuple(dict.fromkeys(reader.places(reader.writes)))
        """The files that redirections read and write, in every directory that a `cd` may have led to."""
        self.bases = tuple(dict.fromkeys(reader.bases))
        """Those directories; the first is the one it starts in."""
        self.loose = tuple(dict.fromkeys((*reader.loose, *([command] if reader.fed or _is_run(reader) else []))))
        """Texts in which words may be programs that are called, for rules that forbid."""
        self.understood = not reader.why
        self.why = reader.why
        """What was not understood."""


@lru_cache(maxsize=256)
def read(command: str) -> ShellScript:
    reader = _Reader(command, 0)
    reader.run()
    return ShellScript(command, reader)


def _is_run(reader: _Reader) -> bool:
    """Whether it runs a file that it writes itself."""
    written = {posixpath.normpath(path) for path in reader.writes}
    for part in reader.parts:
        values = [one.partition("=")[2] for one in (*part.assignments, *part.words)]
        if part.name in ("make", "gmake") and written & {"Makefile", "makefile", "GNUmakefile"}:
            return True
        ran = part.words[1:] if part.name in (*_SHELLS, *programs.INTERPRETERS, "source", ".") else ()
        if written & {posixpath.normpath(word) for word in (part.words[0], *ran, *filter(None, values))}:
            return True
    return False


def joined(bases: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Each path, relative to each of the directories."""
    return [path if path.startswith("~") else posixpath.join(base, path) for path in paths for base in bases]


_SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "ash", "rbash", "mksh", "posh", "yash"}
_INPUT = regex(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
_ASSIGNMENT = regex(r"[A-Za-z_]\w*\+?=")
_TORN = regex(r"[^\s\\]\\\n\S")
_BACKTICKS = regex(r"\$\{[^}`]*`([^`]*)`")
"""Those in an expansion, which the grammar does not see."""
_NOWHERE = regex(r"/dev/(null|stdout|stderr|tty|fd/\d+)|\d+|-")
_HARMLESS = regex(
    r"(LANG|LC_\w+|TZ|TERM|NO_COLOR|FORCE_COLOR|CI|DEBUG|NODE_ENV|COLUMNS|RUST_(LOG|BACKTRACE)"
    r"|PYTHON(UNBUFFERED|DONTWRITEBYTECODE|HASHSEED))"
)


def changes_nothing(variable: str) -> bool:
    """Whether what a program does cannot depend on it."""
    return _HARMLESS.fullmatch(variable) is not None


_QUOTED = regex(r""" "[^"&;|()\n$`\\]*" | '[^'&;|()\n]*' """, re.X)
_ANOTHER_ORDER = regex(r"""[;\n(){}'"\\`#$!]|\|\||(?<!&)&(?!&)|CDPATH|\bset\b|\bshopt\b""")
_STEP = regex(r"\s*cd\s+[\w./][\w./-]*\s*")


def steps_surely(text: str) -> bool:
    """Whether each `cd` in it is a command of its own in a row of `&&`: what comes after one runs in the directory that
    it names, or not at all."""
    bare = _QUOTED.sub("x", text)
    steps = bare.split("&&")
    return not _ANOTHER_ORDER.search(bare) and all(
        _STEP.fullmatch(step) for step in steps if re.search(r"\b(cd|pushd|popd)\b", step)
    )


def is_names(word: Word) -> bool:
    """Whether a word with wildcards can only expand to file names, not to options or brace alternatives."""
    return "{" not in word.raw and not word.raw.startswith(("*", "?", "["))


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0
        self.parts: list[Part] = []
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.bases = [""]
        steps = depth == 0 and any(name in text for name in ("cd", "pushd", "popd"))
        self.here: str | None = "" if steps and steps_surely(text) else None
        """The directory that a script is in for certain, because it goes on only after a `cd` that led there."""
        self.document = False
        self.loose: list[str] = []
        self.fed = False
        self.why = ""

    def run(self) -> None:
        try:
            if len(self.text) > MAX_LENGTH or self.depth > MAX_DEPTH:
                raise Lost("it is too long or too deep")
            if "\\\n" in self.text and _TORN.search(self.text):
                self.doubt("a word over two lines")
                self.guess()
            for found in simple_commands(self.text):
                if isinstance(found, SimpleCommand):
                    self.command(found)
                elif isinstance(found, Inner):
                    self.script(found.text)
                else:
                    self.redirection(found)
        except (Lost, RecursionError) as error:
            self.why = self.why or str(error) or "it is too deep"
            self.guess()

    def doubt(self, why: str) -> None:
        """Mark the script as not understood, but go on reading."""
        self.why = self.why or why

    def guess(self) -> None:
        for piece in re.split(r"[;&|()\n`{}<>]|\$\(", self.text[:MAX_LENGTH].replace("\\\n", "")):
            self.every_ending(piece.translate({ord(quote): None for quote in "'\"\\"}).split(), piece.strip())

    def every_ending(self, words: list[str], source: str, *, wrapper: bool = False) -> None:
        """Add a part for each suffix of the words, because any word may be the program that runs."""
        endings = (tuple(words[start:]) for start in range(min(len(words), 16)))
        self.parts += [Part(words=ending, source=source, wrapper=wrapper) for ending in endings]

    def places(self, targets: list[str]) -> list[str]:
        return joined(self.bases, targets)

    def redirection(self, found: Redirection) -> None:
        operator, target = found.operator, found.target
        if target.dynamic or target.glob or target.text.startswith("~") and "/" not in target.text:
            self.doubt(f"the place of the redirection {target.raw}")
        elif _NOWHERE.fullmatch(target.text) and (operator.endswith("&") or target.text.startswith("/")):
            pass
        else:
            if operator.startswith("<"):
                self.reads.append(target.text)
            if operator not in ("<", "<&"):
                self.writes.append(target.text)

    # The meaning of a simple command: keywords, assignments, wrappers.

    def script(self, text: str) -> None:
        inner = _Reader(text, self.depth + 1)
        inner.bases = self.bases
        inner.run()
        self.parts += inner.parts
        self.reads += inner.reads
        self.writes += inner.writes
        self.loose += inner.loose
        self.fed = self.fed or inner.fed
        self.why = self.why or inner.why

    def command(self, found: SimpleCommand) -> None:
        assignments = [word.text for word in found.assignments]
        for one in found.assignments:
            variable, _, value = one.text.partition("=")
            code = not one.dynamic and re.search(r"\$\(|`", value)  # `$((x))` and `${x@P}` run it
            if code:
                self.doubt(f"what {variable} holds")
            if code or programs.names_a_program(variable):
                self.loose.append(value)
        if found.words:
            self.document = found.document
            self.program(
                found.words, assignments, found.source, certain=all(not one.dynamic for one in found.assignments)
            )
        elif assignments:
            # The assignments stay in force for everything after them, so they are judged like a command.
            self.parts.append(Part(words=tuple(assignments), source=found.source, certain=False))

    def program(
        self, words: list[Word], assignments: list[str], source: str = "", wrapped: int = 0, *, certain: bool = True
    ) -> None:
        if wrapped > MAX_DEPTH:
            raise Lost("it is wrapped too deep")
        name = posixpath.basename(words[0].text)
        if words[0].dynamic or words[0].glob or not name or re.search(r"\s", words[0].text):
            self.doubt(f"what {words[0].raw or source} runs")
        texts = tuple(word.text for word in words)
        self.loose += programs.may_run(texts)
        for quoted in (one for word in words if word.dynamic for one in _BACKTICKS.findall(word.raw)):
            self.script(quoted)
        self.fed = self.fed or programs.is_fed(texts, document=self.document)
        if name in programs.EVALUATES and any(map(runs_in_subscript, texts)):
            self.doubt(f"a subscript that {name} evaluates")
            self.every_ending(re.split(r"[\s$()`\[\]]+", " ".join(texts)), source)
        globs = tuple(word.text for word in words[1:] if word.glob and not word.dynamic)
        certain = certain and not any(word.dynamic or word.glob and not is_names(word) for word in words)
        certain = certain and not (self.document and name in programs.INTERPRETERS)
        own = Part(words=texts, assignments=tuple(assignments), source=source, globs=globs, certain=certain)
        wrapper = False
        if name in ("cd", "pushd", "popd"):
            self.change_directory(words[1:])
        elif name == "tee":
            self.writes += [text for text in texts[1:] if not text.startswith("-")]
        elif name in _SHELLS:
            wrapper = self.inner_shell(words[1:]) and own.plain
        elif name in ("eval", "trap"):
            given = words[1:] if texts[1:2] != ("--",) else words[2:]
            self.inner_script(name, given if name == "eval" else given[:1])
        elif name in programs.RUNNERS:
            self.doubt(f"what {name} runs")
            self.every_ending(" ".join(texts[1:]).split(), source)
        elif name == "find":
            self.find_actions(words, assignments, wrapped + 1)
        elif name == "git":
            self.git(words, assignments)
        elif name in programs.INTERPRETERS or name == "sed":
            # Code inside a word: a rule that forbids a program also applies there, as far as the name can be read.
            named = re.findall(r"[\w./-]+", " ".join(text for text in texts[1:] if re.search(r"[\s(\"']", text)))
            self.every_ending(named, "", wrapper=True)
        elif name in programs.LAUNCHERS:
            self.every_ending(" ".join(texts[1:]).split(), "", wrapper=True)
        elif name in ("mapfile", "readarray") and any(text.startswith("-C") for text in texts):
            self.doubt(f"what {name} calls")
            self.every_ending(" ".join(texts[1:]).split(), source)
        elif (
            name == "alias"
            and texts[1:]
            or name in ("source", ".")
            and any(word.dynamic or _INPUT.fullmatch(word.text) for word in words[1:2])
        ):
            self.doubt(f"what {name} brings")
        elif name in programs.WRAPPERS and not (name == "command" and texts[1:2] in (("-v",), ("-V",))):
            wrapper = self.inner_command(name, words[1:], assignments, wrapped + 1) and name not in programs.POWERFUL
        own.wrapper = wrapper
        self.parts.append(own)

    def inner_script(self, name: str, words: list[Word]) -> None:
        if any(word.dynamic or word.glob for word in words):
            self.doubt(f"what {name} is given")
        self.script(" ".join(word.text for word in words))

    def change_directory(self, words: list[Word]) -> None:
        target = words[0] if words else Word(text="~")
        if target.dynamic or target.glob or target.text.startswith("-") or len(self.bases) > 16:
            self.doubt("which directory it changes to")
            return
        if self.here is not None:
            # The shell takes `..` off its own path, also where that leads through a link.
            led = posixpath.normpath(posixpath.join(self.here, target.text))
            self.here = "" if led == "." else led
            self.bases.append(self.here)
            return
        self.bases += [posixpath.join(base, target.text) for base in self.bases]

    def inner_shell(self, words: list[Word]) -> bool:
        """Whether everything it runs is the text given with -c."""
        given = False
        while words and words[0].text.startswith(("-", "+")):
            option = words[0].text
            given = given or not option.startswith("--") and "c" in option
            if words[0].dynamic or not re.fullmatch(r"-[ceulxv]+|-o|\+o|--norc|--noprofile|--posix", option):
                self.doubt(f"the shell option {option}")
            words = words[2:] if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else words[1:]
        if not words:
            self.doubt("a shell that reads its commands from its input")
        elif not given and (words[0].dynamic or _INPUT.fullmatch(words[0].text)):
            self.doubt(f"the script {words[0].raw}")
        elif given and words[0].text.startswith("{}"):
            self.doubt("what is put in place of {}")
        elif given:
            self.inner_script("the shell", words[:1])
        return given

    def git(self, words: list[Word], assignments: list[str]) -> None:
        """Add the git command without its leading options, which would hide it from rules, and what they run."""
        texts = [word.text for word in words]
        settings, at = programs.git_options(texts)
        command = texts[at:]
        if words[at:] and (words[at].dynamic or words[at].glob):
            self.doubt(f"what git {words[at].raw} does")
        if command and at > 1:
            self.parts.append(Part(words=("git", *command), assignments=tuple(assignments), wrapper=True))
        if command and command[0] in programs.GIT_RUNNERS:
            self.every_ending(" ".join(command[1:]).split(), "", wrapper=True)
        if command[:1] == ["config"]:
            settings += [(key.lower(), value) for key, value in zip(command[1:], command[2:], strict=False)]
        for key, value in settings:
            if key.startswith("alias.") and not value.startswith("!"):
                self.parts.append(Part(words=("git", *value.split(), *command[1:])))
            elif key.startswith("alias.") or programs.git_runs(key, value):
                self.script(value.removeprefix("!"))

    def find_actions(self, words: list[Word], assignments: list[str], wrapped: int) -> None:
        actions = [number for number, word in enumerate(words) if word.text in ("-exec", "-execdir", "-ok", "-okdir")]
        if len(actions) > MAX_ACTIONS:
            self.doubt("so many actions of find")
        for number in actions[:MAX_ACTIONS]:
            rest = words[number + 1 :]
            end = next((place for place, word in enumerate(rest) if word.text in (";", "+")), len(rest))
            if rest[:end]:
                self.program(rest[:end], assignments, wrapped=wrapped)
        texts = [word.text for word in words]
        self.writes += [to for option, to in zip(texts, texts[1:], strict=False) if option in programs.FIND_WRITES]

    def inner_command(self, name: str, words: list[Word], assignments: list[str], wrapped: int) -> bool:
        """Read the command that a wrapper runs. Returns whether there is one."""
        import getopt  # loads gettext, and few commands have a wrapper

        short, long, operands = programs.WRAPPERS[name]
        try:
            rest = getopt.getopt([word.text for word in words], short, long)[1]
            words = words[len(words) - len(rest) :][operands:]
        except getopt.GetoptError:
            self.doubt(f"the options of {name}")
            words = [word for word in words if not word.text.startswith("-")][operands:]
        if name in ("env", "sudo", "doas"):
            if words and words[0].text == "-":
                words = words[1:]
            assignments = [*assignments]
            while words and _ASSIGNMENT.match(words[0].text):
                assignments.append(words[0].text)
                words = words[1:]
        if words and name == "xargs":
            words = [*words, Word(text="...", dynamic=True)]
        if words:
            self.program(words, assignments, wrapped=wrapped)
        return bool(words)

"""What a shell command would run and write, as far as that can be known without running it. Pure.

`read("cd a && sudo rm x > log")` gives one Part for every simple command in it, however deep: joined by any operator,
in subshells, in `$(...)` and backticks, behind `sudo`, `env`, `xargs`, `bash -c '...'`. What it cannot follow
(functions, `case`, arithmetic, a command whose name is a variable) makes the whole script not `understood`; the parts
are then a guess that errs towards finding too many.
"""

from __future__ import annotations

import getopt
import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NoReturn

import msgspec

from treadle.policy import programs

MAX_LENGTH = 64 * 1024
MAX_DEPTH = 8
MAX_ACTIONS = 16


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command."""

    words: tuple[str, ...]
    """Without quotes and redirections, the program first."""
    assignments: tuple[str, ...] = ()
    """What its environment is changed to."""
    source: str = ""
    """As it was written, when it was written as a command of its own."""
    wrapper: bool = False
    """It adds nothing to what the other parts can do, so whoever allows need not look at it."""
    globs: tuple[str, ...] = ()
    """Those of its words of which the shell makes others."""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def full(self) -> str:
        return " ".join((*self.assignments, *self.words))

    @property
    def plain(self) -> bool:
        """Whether its environment is changed in no way that can change what it does."""
        return all(_HARMLESS.fullmatch(assignment.partition("=")[0]) for assignment in self.assignments)

    @property
    def name(self) -> str:
        return posixpath.basename(self.words[0])


class Script(msgspec.Struct, frozen=True, kw_only=True):
    parts: tuple[Part, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Where redirections read and write, with every directory that a `cd` may have led to."""
    bases: tuple[str, ...] = ("",)
    """Those directories; the first is where it starts."""
    understood: bool = True
    why: str = ""
    """What was not understood."""


@lru_cache(maxsize=256)
def read(command: str) -> Script:
    reader = _Reader(command, 0)
    reader.run()
    return Script(
        parts=tuple(dict.fromkeys(reader.parts)),
        reads=tuple(dict.fromkeys(reader.places(reader.reads))),
        writes=tuple(dict.fromkeys(reader.places(reader.writes))),
        bases=tuple(dict.fromkeys(reader.bases)),
        understood=not reader.why,
        why=reader.why,
    )


def joined(bases: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Each path from each of the directories."""
    return [path if path.startswith("~") else posixpath.join(base, path) for path in paths for base in bases]


class _Word(msgspec.Struct):
    text: str = ""
    raw: str = ""
    dynamic: bool = False
    """Only known when it runs: variables, substitutions."""
    glob: bool = False
    """The shell may make other words of it."""


class _Lost(Exception):
    pass


_SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "ash"}
_OPENERS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "fi", "done", "time"}
_LOST = {"case", "function", "coproc", "esac"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!-]|\{[#!]?\w+\})")
_ANSI = re.compile(r"\$'([^'\\]*)'")
"""A string in which nothing is escaped."""
_BRACES = re.compile(r"\{[^{}]*\}")
_OPERATORS = ";&|\n"
_ENDS = _OPERATORS + "()<> \t"
_NOWHERE = re.compile(r"/dev/(null|stdout|stderr|tty|fd/\d+)|\d+|-")
_HARMLESS = re.compile(
    r"(LANG|LC_\w+|TZ|TERM|NO_COLOR|FORCE_COLOR|CI|DEBUG|NODE_ENV|RUST_(LOG|BACKTRACE)|PYTHONUNBUFFERED)"
)


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0
        self.parts: list[Part] = []
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.bases = [""]
        self.heredocs: list[tuple[str, bool, bool]] = []
        self.why = ""

    def run(self) -> None:
        try:
            if len(self.text) > MAX_LENGTH or self.depth > MAX_DEPTH:
                self.lost("it is too long or too deep")
            self.list_until("")
            if self.heredocs:
                self.lost("a here-document does not end")
        except (_Lost, RecursionError) as error:
            self.why = self.why or str(error) or "it is too deep"
            self.guess()

    def lost(self, why: str) -> NoReturn:
        raise _Lost(why)

    def doubt(self, why: str) -> None:
        """Not understood, but what follows still can be."""
        self.why = self.why or why

    def guess(self) -> None:
        for piece in re.split(r"[;&|()\n`{}<>]|\$\(", self.text[:MAX_LENGTH]):
            self.every_ending(piece.translate({ord(quote): None for quote in "'\"\\"}).split(), piece.strip())

    def every_ending(self, words: list[str], source: str, *, wrapper: bool = False) -> None:
        """Any of these words may be the program that runs."""
        endings = (tuple(words[start:]) for start in range(min(len(words), 16)))
        self.parts += [Part(words=ending, source=source, wrapper=wrapper) for ending in endings]

    def places(self, targets: list[str]) -> list[str]:
        return joined(self.bases, targets)

    # The grammar, from the outside in: lists, commands, redirections, words.

    def list_until(self, end: str) -> None:
        while True:
            self.skip_blanks()
            char = self.text[self.at : self.at + 1]
            if char == end:
                self.at += 1
                return
            if not char:
                self.lost(f"{end!r} is missing")
            if char == "#":
                self.skip_comment()
            elif char == "\n":
                self.at += 1
                self.skip_heredocs()
            elif char in _OPERATORS and not self.text.startswith("&>", self.at):
                self.at += 1
            elif char == "(":
                self.open_paren()
            elif char == ")":
                self.lost("there is a `)` too many")
            else:
                self.simple_command()

    def open_paren(self) -> None:
        if self.text.startswith("((", self.at):
            self.lost("arithmetic")
        self.at += 1
        self.list_until(")")

    def simple_command(self) -> None:
        start = self.at
        words: list[_Word] = []
        while True:
            self.skip_blanks()
            char = self.text[self.at : self.at + 1]
            if char == "#":
                self.skip_comment()
            elif char in "<>" and char or self.text.startswith("&>", self.at) or self.at_numbered_redirection():
                if self.text.startswith(("<(", ">("), self.at):
                    self.at += 1
                    self.open_paren()
                    words.append(_Word(text="/dev/fd/63", raw="<()", dynamic=True))
                else:
                    self.redirection()
            elif not char or char in _OPERATORS + ")":
                break
            elif char == "(":
                self.lost("a function or an unexpected `(`")
            else:
                words.append(self.word())
        self.command(words, self.text[start : self.at].strip())

    def at_numbered_redirection(self) -> bool:
        return re.compile(r"(\d+|\{\w+\})[<>]").match(self.text, self.at) is not None

    def redirection(self) -> None:
        found = re.compile(r"(?:\d+|\{\w+\})?(&>>?|<<<|<<-?|<>|>>|>\||[<>]&?)").match(self.text, self.at)
        if found is None:
            self.lost("a redirection")
        operator = found[1]
        self.at = found.end()
        self.skip_blanks()
        if self.text[self.at : self.at + 1] in ("", *_OPERATORS, *"()<>"):
            self.lost("a redirection to nothing")
        target = self.word()
        if operator in ("<<", "<<-"):
            quoted = target.raw != target.text
            self.heredocs.append((target.text, quoted, operator == "<<-"))
        elif operator == "<<<":
            pass
        elif target.dynamic or target.glob or target.text.startswith("~") and "/" not in target.text:
            self.doubt(f"the place of the redirection {target.raw}")
        elif _NOWHERE.fullmatch(target.text) and (operator.endswith("&") or target.text.startswith("/")):
            pass
        else:
            if operator.startswith("<"):
                self.reads.append(target.text)
            if operator not in ("<", "<&"):
                self.writes.append(target.text)

    def word(self) -> _Word:
        start = self.at
        word = _Word()
        while self.at < len(self.text) and self.text[self.at] not in _ENDS:
            char = self.text[self.at]
            if char == "\\":
                if self.text[self.at + 1 : self.at + 2] != "\n":
                    word.text += self.text[self.at + 1 : self.at + 2]
                self.at += 2
            elif char == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    self.lost("a quote is not closed")
                word.text += self.text[self.at + 1 : end]
                self.at = end + 1
            elif char == '"' or self.text.startswith('$"', self.at):
                self.at += 1 + (char == "$")
                self.double_quoted(word)
            elif plain := _ANSI.match(self.text, self.at):
                word.text += plain[1]
                self.at = plain.end()
            elif char in "$`":
                self.expansion(word)
            else:
                word.glob = word.glob or char in "*?["
                word.text += char
                self.at += 1
        word.raw = self.text[start : self.at]
        word.glob = word.glob or any("," in group or ".." in group for group in _BRACES.findall(word.raw))
        return word

    def double_quoted(self, word: _Word) -> None:
        while (char := self.text[self.at : self.at + 1]) != '"':
            if not char:
                self.lost("a quote is not closed")
            if char == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                word.text += escaped if escaped in ("$", "`", '"', "\\") else "" if escaped == "\n" else char + escaped
                self.at += 2
            elif char in "$`":
                self.expansion(word)
            else:
                word.text += char
                self.at += 1
        self.at += 1

    def expansion(self, word: _Word) -> None:
        start = self.at
        if self.text[start] == "`":
            self.backticks()
        elif self.text.startswith("$((", start) or self.text.startswith(("$'", "$["), start):
            self.lost("arithmetic or an ANSI string")
        elif self.text.startswith("$(", start):
            self.at += 2
            self.list_until(")")
        elif variable := _VARIABLE.match(self.text, start):
            self.at = variable.end()
        elif self.text.startswith("${", start):
            self.lost("a ${...} that does more than name a variable")
        else:
            word.text += "$"
            self.at += 1
            return
        word.dynamic = True
        word.text += self.text[start : self.at]

    def backticks(self) -> None:
        found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.S).match(self.text, self.at)
        if found is None:
            self.lost("a backtick is not closed")
        self.at = found.end()
        self.script(re.sub(r"\\([`\\$\"])", r"\1", found[1]))

    def skip_blanks(self) -> None:
        self.at = re.compile(r"(?:[ \t]|\\\n)*").match(self.text, self.at).end()  # type: ignore[union-attr]

    def skip_comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def skip_heredocs(self) -> None:
        for delimiter, quoted, tabs in self.heredocs:
            body = ""
            while True:
                if self.at >= len(self.text):
                    self.lost("a here-document does not end")
                end = self.text.find("\n", self.at)
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                self.at += len(line) + 1
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                body += line + "\n"
            if not quoted and re.search(r"\$[({]|`|\\$", body, re.M):
                self.lost("a here-document with substitutions")
        self.heredocs.clear()

    # What a simple command means: keywords, assignments, wrappers.

    def script(self, text: str) -> None:
        inner = _Reader(text, self.depth + 1)
        inner.bases = self.bases
        inner.run()
        self.parts += inner.parts
        self.reads += inner.reads
        self.writes += inner.writes
        self.why = self.why or inner.why

    def command(self, words: list[_Word], source: str) -> None:
        while words and words[0].raw in _OPENERS:
            timed = words.pop(0).raw == "time"
            if timed and words and words[0].raw == "-p":
                words.pop(0)
        if words and words[0].raw in _LOST:
            self.lost(f"`{words[0].raw}`")
        if words and words[0].raw in ("for", "select"):
            return
        assignments = []
        while words and _ASSIGNMENT.match(words[0].raw):
            assignments.append(words.pop(0).text)
        if words:
            self.program(words, assignments, source)
        elif assignments:
            # They stay set for all that follows, so they are judged like a command.
            self.parts.append(Part(words=tuple(assignments), source=source))

    def program(self, words: list[_Word], assignments: list[str], source: str = "", wrapped: int = 0) -> None:
        if wrapped > MAX_DEPTH:
            self.lost("it is wrapped too deep")
        name = posixpath.basename(words[0].text)
        if words[0].dynamic or words[0].glob or not name or re.search(r"\s", words[0].text):
            self.doubt(f"what {words[0].raw or source} runs")
        texts = tuple(word.text for word in words)
        globs = tuple(word.text for word in words[1:] if word.glob and not word.dynamic)
        own = Part(words=texts, assignments=tuple(assignments), source=source, globs=globs)
        wrapper = False
        if name in ("cd", "pushd", "popd"):
            self.change_directory(words[1:])
        elif name == "tee":
            self.writes += [text for text in texts[1:] if not text.startswith("-")]
        elif name in _SHELLS:
            wrapper = self.inner_shell(words[1:]) and own.plain
        elif name in ("eval", "trap"):
            self.inner_script(name, words[1:] if name == "eval" else words[1:2])
        elif name in programs.RUNNERS:
            self.doubt(f"what {name} runs")
            self.every_ending(" ".join(texts[1:]).split(), source)
        elif name == "find":
            self.find_actions(words, assignments, wrapped + 1)
        elif name == "git":
            self.git(words, assignments)
        elif name in programs.LAUNCHERS:
            self.every_ending(" ".join(texts[1:]).split(), "", wrapper=True)
        elif name == "alias" and texts[1:] or name in ("source", ".") and any(word.dynamic for word in words[1:2]):
            self.doubt(f"what {name} brings")
        elif name in programs.WRAPPERS and not (name == "command" and texts[1:2] in (("-v",), ("-V",))):
            wrapper = self.inner_command(name, words[1:], assignments, wrapped + 1) and name not in programs.POWERFUL
        self.parts.append(msgspec.structs.replace(own, wrapper=wrapper))

    def inner_script(self, name: str, words: list[_Word]) -> None:
        if any(word.dynamic or word.glob for word in words):
            self.doubt(f"what {name} is given")
        self.script(" ".join(word.text for word in words))

    def change_directory(self, words: list[_Word]) -> None:
        target = words[0] if words else _Word(text="~")
        if target.dynamic or target.glob or target.text.startswith("-") or len(self.bases) > 16:
            self.doubt("which directory it changes to")
            return
        self.bases += [posixpath.join(base, target.text) for base in self.bases]

    def inner_shell(self, words: list[_Word]) -> bool:
        """Whether all it runs is the text given with -c."""
        given = False
        while words and words[0].text.startswith(("-", "+")):
            option = words[0].text
            given = given or not option.startswith("--") and "c" in option
            if words[0].dynamic or not re.fullmatch(r"-[ceulxv]+|-o|\+o|--norc|--noprofile|--posix", option):
                self.doubt(f"the shell option {option}")
            words = words[2:] if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else words[1:]
        if not words:
            self.doubt("a shell that reads its commands from its input")
        elif words[0].dynamic and not given:
            self.doubt(f"the script {words[0].raw}")
        elif given:
            self.inner_script("the shell", words[:1])
        return given

    def git(self, words: list[_Word], assignments: list[str]) -> None:
        """As without the options in front of its command, behind which no rule would see that, and what they run."""
        texts = [word.text for word in words]
        settings, at = programs.git_options(texts)
        command = texts[at:]
        if words[at:] and (words[at].dynamic or words[at].glob):
            self.doubt(f"what git {words[at].raw} does")
        if command and at > 1:
            self.parts.append(Part(words=("git", *command), assignments=tuple(assignments), wrapper=True))
        if command and command[0] in programs.GIT_RUNNERS:
            self.every_ending(" ".join(command[1:]).split(), "", wrapper=True)
        for key, value in settings:
            if key.startswith("alias.") and not value.startswith("!"):
                self.parts.append(Part(words=("git", *value.split(), *command[1:])))
            elif key.startswith("alias.") or programs.git_runs(key, value):
                self.script(value.removeprefix("!"))

    def find_actions(self, words: list[_Word], assignments: list[str], wrapped: int) -> None:
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

    def inner_command(self, name: str, words: list[_Word], assignments: list[str], wrapped: int) -> bool:
        """Whether there is one."""
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
            words = [*words, _Word(text="...", dynamic=True)]
        if words:
            self.program(words, assignments, wrapped=wrapped)
        return bool(words)

"""What a shell command would run and write, as far as that can be known without running it. Pure.

`read("cd a && sudo rm x > log")` gives one Part for every simple command in it, however deep: joined by any operator,
in subshells, functions and `case`, in `$(...)` and backticks, behind `sudo`, `env`, `xargs`, `bash -c '...'`. If it
cannot follow something (a command whose name is a variable, a shell that reads its input), the whole script is not
`understood`, and the parts are a guess that errs towards finding too many.
"""

import getopt
import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from treadle.policy import programs, syntax
from treadle.policy.syntax import Lost, Word

MAX_LENGTH = 64 * 1024
MAX_DEPTH = 8
MAX_ACTIONS = 16


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command."""

    words: tuple[str, ...]
    """The program and its arguments, without quotes and redirections."""
    assignments: tuple[str, ...] = ()
    """Changes to its environment."""
    source: str = ""
    """The command as it was written, if it stood on its own."""
    wrapper: bool = False
    """It adds nothing to what the other parts can do, so allow rules need not cover it."""
    globs: tuple[str, ...] = ()
    """Its words that the shell expands."""
    certain: bool = True
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
        return all(_HARMLESS.fullmatch(assignment.partition("=")[0]) for assignment in self.assignments)

    @property
    def name(self) -> str:
        return posixpath.basename(self.words[0])


class ShellScript(msgspec.Struct, frozen=True, kw_only=True):
    parts: tuple[Part, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """The files that redirections read and write, in every directory that a `cd` may have led to."""
    bases: tuple[str, ...] = ("",)
    """Those directories; the first is the one it starts in."""
    loose: tuple[str, ...] = ()
    """Texts in which words may be programs that are called, for rules that forbid."""
    understood: bool = True
    why: str = ""
    """What was not understood."""


@lru_cache(maxsize=256)
def read(command: str) -> ShellScript:
    reader = _Reader(command, 0)
    reader.run()
    return ShellScript(
        parts=tuple(dict.fromkeys(reader.parts)),
        reads=tuple(dict.fromkeys(reader.places(reader.reads))),
        writes=tuple(dict.fromkeys(reader.places(reader.writes))),
        bases=tuple(dict.fromkeys(reader.bases)),
        loose=tuple(dict.fromkeys((*reader.loose, *([command] if reader.fed or _is_run(reader) else [])))),
        understood=not reader.why,
        why=reader.why,
    )


def _is_run(reader: "_Reader") -> bool:
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
_INPUT = re.compile(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_TORN = re.compile(r"[^\s\\]\\\n\S")
_BACKTICKS = re.compile(r"\$\{[^}`]*`([^`]*)`")
"""Those in an expansion, which the grammar does not see."""
_NOWHERE = re.compile(r"/dev/(null|stdout|stderr|tty|fd/\d+)|\d+|-")
_HARMLESS = re.compile(
    r"(LANG|LC_\w+|TZ|TERM|NO_COLOR|FORCE_COLOR|CI|DEBUG|NODE_ENV|RUST_(LOG|BACKTRACE)|PYTHONUNBUFFERED)"
)


_QUOTED = re.compile(r""" "[^"&;|()\n$`\\]*" | '[^'&;|()\n]*' """, re.X)
_ANOTHER_ORDER = re.compile(r"""[;\n(){}'"\\`#$!]|\|\||(?<!&)&(?!&)|CDPATH|\bset\b|\bshopt\b""")
_STEP = re.compile(r"\s*cd\s+[\w./][\w./-]*\s*")


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
        self.here: str | None = "" if depth == 0 and steps_surely(text) else None
        """The directory that a script is in for certain, because it goes on only after a `cd` that led there."""
        self.document = False
        self.loose: list[str] = []
        self.fed = False
        self.why = ""

    def run(self) -> None:
        try:
            if len(self.text) > MAX_LENGTH or self.depth > MAX_DEPTH:
                raise Lost("it is too long or too deep")
            if _TORN.search(self.text):
                self.doubt("a word over two lines")
                self.guess()
            for found in syntax.read(self.text):
                if isinstance(found, syntax.SimpleCommand):
                    self.command(found)
                elif isinstance(found, syntax.Inner):
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

    def redirection(self, found: syntax.Redirection) -> None:
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

    def command(self, found: syntax.SimpleCommand) -> None:
        assignments = [word.text for word in found.assignments]
        for one in found.assignments:
            variable, _, value = one.text.partition("=")
            if programs.names_a_program(variable) or not one.dynamic and re.search(r"\$\(|`", value):
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
        if name in programs.EVALUATES and any(map(syntax.runs_in_subscript, texts)):
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
        self.parts.append(msgspec.structs.replace(own, wrapper=wrapper))

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

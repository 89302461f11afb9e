"""Which files of a change are its product and which judge it, and the trees that follow from that.

    judge = Judge("make test", base_files, text)        # text(path): of the base's file
    judge.of("tests/test_add.py")                       # FileRole("judge", "is a test, or data or a helper of tests")
    divided = divide(store, base, work, judge)          # .product, .judge, .checked: the tree to check

Everything is decided by what the base has: its files, its settings and the check's command line.
"""

import configparser
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from treadle.io.files import read
from treadle.policy import patterns
from treadle.workspace.changes import TreeEntry
from treadle.workspace.store import Store

Role = Literal["product", "judge", "mixed"]
INTERPRETERS = r"(?:env\s+)?(?:ba|da|z|k|fi)?sh|python[\d.]*|node|deno run|bun|ruby|perl|php|pwsh"
_RUN = re.compile(rf"(?:^|[\s;&|(@`])(?:{INTERPRETERS})\s+((?:-[\w-]+\s+)*)([^\s;&|)'\"`]+)", re.M)
_PROGRAM = re.compile(r"(?:^|[\s;&|(@`'\"])(\.{1,2}/[^\s;&|)'\"`]+)", re.M)
_GIVEN = re.compile(
    r"(?:^|\s)--?(?:c|f|config|config-file|configfile|rcfile|settings|file|makefile)[=\s]"
    r"([^\s;&|)'\"`]+\.(?:ini|cfg|toml|json|jsonc|js|cjs|mjs|ts|mts|yml|yaml|xml|mk|conf))(?=$|[\s;&|)])",
    re.M,
)
_INTO = re.compile(r"(?:^|[\s;&|(])(?:cd|pushd)\s+([^\s;&|)'\"`]+)", re.M)
_PATH = re.compile(r"\bPATH=([^\s;&|]+)")
_IMPORT = re.compile(r"^\s*(?:from\s+([\w]+)[\w.]*\s+import|import\s+([\w., \t]+))", re.M)
_RUST_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+\w+\s*\{")
_HEADER = re.compile(r"^\s*\[+\s*([^\]]+?)\s*\]+\s*(?:[#;].*)?$")
SCRIPTS_DEEP = 5
"""A check may run a script that runs a script: so many are followed."""
TESTS = "is a test, or data or a helper of tests"
READ_MOST = 400
"""So many of the base's sources are read for what they import."""


class FileRole(NamedTuple):
    """What a file counts as. `why` continues a sentence that begins with its path."""

    role: Role
    why: str


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[verify]` of the base's `.treadle/config.toml`."""

    check: str = ""
    """The command that checks the project, after `setup`."""
    setup: str = ""
    judge: tuple[str, ...] = ()
    """Patterns that go before the table."""
    product: tuple[str, ...] = ()
    require: str = ""
    """What work must show to land, `tested` or `proven`; less is asked about."""


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(read(os.path.join(os.path.dirname(__file__), "judges.toml")).decode())


def settings_of(text: str | None) -> JudgeSettings:
    """What the base's settings say about its judge. What cannot be read says nothing: then the table decides."""
    try:
        table = tomllib.loads(text or "").get("verify", {})
    except (tomllib.TOMLDecodeError, RecursionError):
        return JudgeSettings()
    try:
        found = msgspec.convert(table, JudgeSettings)
        return msgspec.structs.replace(found, check=found.check.strip(), setup=found.setup.strip())
    except msgspec.ValidationError:  # whatever else is wrong there, no more may land for it
        return JudgeSettings(require=str(table.get("require", "")) if isinstance(table, dict) else "")


class Judge:
    """`files` are the paths of the base, `text` gives that of one of them, or None where it is not text.

    `inside` is the directory that the check runs in, relative to the top. `may_change` are patterns of judge files
    that a person has allowed the work to change.
    """

    def __init__(
        self,
        command: str,
        files: Mapping[str, object],
        text: Callable[[str], str | None],
        *,
        inside: str = "",
        may_change: Sequence[str] = (),
    ) -> None:
        self.may_change = tuple(may_change)
        self._files = files
        self._text = text
        self._inside = inside
        self.settings = settings_of(text(".treadle/config.toml") if ".treadle/config.toml" in files else None)
        self._named, self._directories = self._named_by(command)
        words = re.split(r"[\s;&|()'\"`=]+", command)
        self._wanted = {os.path.normpath(os.path.join(inside, word)) for word in words if word} - files.keys()
        self._outside: frozenset[str] | None = None

    def of(self, path: str) -> FileRole:
        """What a file counts as, whether the base has it or not."""
        if any(patterns.match(one, path) for one in self.settings.product):
            return FileRole("product", "is product by [verify] of the branch")
        if any(patterns.match(one, path) for one in self.settings.judge):
            return FileRole("judge", "is judge by [verify] of the branch")
        if path in self._wanted:
            return FileRole("product", "is named by the check, and the branch has no such file")
        if path in self._named:
            return FileRole("judge", "is run by the check")
        if any(f"{path}/".startswith(one) for one in self._directories):
            return FileRole("judge", "is in a directory on the check's PATH")
        if os.path.basename(path) in _table()["sections"]:
            return FileRole("mixed", "has sections that the runner of the tests reads")
        for row in _table()["judge"]:
            if any(patterns.match(one, path) for one in row["files"]):
                return FileRole("judge", row["why"])
        if path.endswith(".rs") and path in self._files and _RUST_TESTS.search(self._text(path) or ""):
            return FileRole("mixed", "has tests in it")
        if path not in self._files and (name := self._shadowed(path)):
            return FileRole("judge", f"would be loaded in place of {name}")
        return FileRole("product", "is none of what judges")

    def _named_by(self, command: str) -> tuple[frozenset[str], tuple[str, ...]]:
        """The base's files that the check runs as scripts, also by way of others, and the directories on its PATH."""
        found: set[str] = set()
        directories: list[str] = []
        waiting = [(command, self._inside, 0)]
        while waiting:
            text, folder, depth = waiting.pop()
            for words in _PATH.findall(text):
                places = [os.path.normpath(os.path.join(folder, one)) for one in words.split(":") if "$" not in one]
                directories += [f"{one}/" for one in places if one not in (".", "") and not os.path.isabs(one)]
            folders = [folder, *(os.path.join(folder, one) for one in _INTO.findall(text))]
            for path in chain.from_iterable(self._scripts(text, one) for one in folders):
                if path not in found and depth < SCRIPTS_DEEP:
                    found.add(path)
                    waiting.append((self._text(path) or "", os.path.dirname(path), depth + 1))
                    waiting.append((self._text(path) or "", self._inside, depth + 1))
        return frozenset(found), tuple(directories)

    def _scripts(self, text: str, folder: str) -> Iterator[str]:
        words = [word for _, word in _RUN.findall(text)] + _PROGRAM.findall(text) + _GIVEN.findall(text)
        for options, word in _RUN.findall(text):
            if "-m" in options.split():
                words += [f"{word.replace('.', '/')}.py", f"{word.replace('.', '/')}/__main__.py"]
        first = text.split("\n", 1)[0].split()
        for word in [*words, *first[:1]]:
            path = os.path.normpath(os.path.join(folder, word))
            if path in self._files:
                yield path

    def _shadowed(self, path: str) -> str:
        """The module that a new file would stand in front of: Python looks into the top and beside programs first."""
        folder, _, name = path.rpartition("/")
        stem, _, ending = name.partition(".")
        if name == "__init__.py":
            folder, _, stem = folder.rpartition("/")
        elif ending not in ("py", "so", "pyd", "pyi") and not ending.startswith(("cpython", "abi3")):
            return ""
        if not stem or f"{folder}/__init__.py".lstrip("/") in self._files and folder:
            return ""  # a part of a package, which has a longer name
        known = stem in sys.stdlib_module_names or stem in _table()["shadows"]["python"] or stem in self._imported()
        return stem if known else ""

    def _imported(self) -> frozenset[str]:
        """Modules that the base's Python files import and that it does not have itself."""
        if self._outside is None:
            sources = [path for path in self._files if path.endswith(".py")][:READ_MOST]
            names = set()
            for path in sources:
                for module, several in _IMPORT.findall(self._text(path) or ""):
                    names |= (
                        {module}
                        if module
                        else {one.split()[0].split(".")[0] for one in several.split(",") if one.split()}
                    )
            own = {part.removesuffix(".py") for path in self._files if path.endswith(".py") for part in path.split("/")}
            self._outside = frozenset(names - own)
        return self._outside


# The trees


class Divided(NamedTuple):
    """A change, divided. Trees: `checked` has the work's product with the base's judge, `judged` the base's product
    with the work's judge."""

    product: tuple[str, ...]
    judge: tuple[str, ...]
    allowed: tuple[str, ...]
    """Judge files that the work may change: they count as product."""
    doubtful: Mapping[str, str]
    """Of `judge`, what does more than add tests, and why it is judge: someone else should look at it."""
    checked: str
    judged: str

    @property
    def with_tests(self) -> bool:
        """Whether tests were added or changed, and not only how they are run."""
        return any(self.doubtful.get(path, TESTS) == TESTS for path in self.judge)


def judge_for(store: Store, base: str, command: str, *, inside: str = "", may_change: Sequence[str] = ()) -> Judge:
    """The judge of a tree. Blocks."""
    files = store.files(base)

    @cache
    def text(path: str) -> str | None:
        return _text(store, files.get(path))

    return Judge(command, files, text, inside=inside, may_change=may_change)


def divide(store: Store, base: str, work: str, judge: Judge) -> Divided:
    """Divide what differs between two trees. Blocks."""
    old, new = store.files(base), store.files(work)
    product, judges, allowed, doubtful = list[str](), list[str](), list[str](), dict[str, str]()
    checked, judged = dict(old), dict(new)
    for path in sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path)):
        role, why = judge.of(path)
        before, after = old.get(path), new.get(path)
        if role != "product" and any(patterns.match(one, path) for one in judge.may_change):
            role = "product"
            allowed.append(path)
        mixed = _mixed(store, path, before, after) if role == "mixed" else None
        if role == "product" or mixed is not None:
            product.append(path)
            _set(checked, path, mixed or after)
            _set(judged, path, before)
        if role == "judge" or (role == "mixed" and mixed != after):
            judges.append(path)
            if why != TESTS or not _only_adds(store, before, after):
                doubtful[path] = why
    trees = store.put_files(checked), store.put_files(judged)
    return Divided(tuple(product), tuple(judges), tuple(allowed), doubtful, *trees)


def _only_adds(store: Store, before: TreeEntry | None, after: TreeEntry | None) -> bool:
    """Whether a file is new, or has all its lines of before, in their order, and others between them."""
    if before is None or after is None:
        return before is None
    old, new = _text(store, before), _text(store, after)
    if old is None or new is None:
        return False
    left = iter(new.splitlines())
    return all(line in left for line in old.splitlines())


def _set(files: dict[str, TreeEntry], path: str, entry: TreeEntry | None) -> None:
    if entry is None:
        files.pop(path, None)
    else:
        files[path] = entry


def _text(store: Store, entry: TreeEntry | None) -> str | None:
    if entry is None or entry.mode not in ("100644", "100755"):
        return None
    try:
        return store.blobs([entry.blob])[entry.blob].decode()
    except UnicodeDecodeError:
        return None


def _mixed(store: Store, path: str, before: TreeEntry | None, after: TreeEntry | None) -> TreeEntry | None:
    """The work's file with the sections that the base's runner reads; None if they cannot be told apart."""
    if after is None or (new := _text(store, after)) is None:
        return None
    old = _text(store, before) or ""
    name = os.path.basename(path)
    made = _with_tests_of(old, new) if path.endswith(".rs") else with_sections_of(name, old, new)
    if made is None:
        return None
    return after if made == new else TreeEntry(mode=after.mode, blob=store.put("blob", made.encode()))


def with_sections_of(name: str, old: str, new: str) -> str | None:
    """A file of this name with the runner's sections of `old` and the rest of `new`."""
    sections = _table()["sections"][name]
    try:
        if _runner_part(name, old, sections) == _runner_part(name, new, sections):
            return new
        if name.endswith(".json"):
            return _json_with(old, new, sections)
        blocks = [block for header, block in _blocks(new) if not _is_one(header, sections)]
        blocks += [block for header, block in _blocks(old) if _is_one(header, sections)]
        made = "".join(blocks)
        same = _runner_part(name, made, sections) == _runner_part(name, old, sections)
        return made if same and _rest(name, made, sections) == _rest(name, new, sections) else None
    except (ValueError, configparser.Error, TypeError, AttributeError, RecursionError):
        return None


def _json_with(old: str, new: str, sections: Sequence[str]) -> str:
    before, after = json.loads(old or "{}"), json.loads(new)
    product = {key: value for key, value in after.items() if key not in sections}
    return json.dumps({**product, **{key: before[key] for key in sections if key in before}}, indent=2) + "\n"


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The text cut before each header of a section."""
    header, lines = "", list[str]()
    for line in text.splitlines(keepends=True):
        if found := _HEADER.match(line):
            yield header, "".join(lines)
            header, lines = found[1].replace('"', "").replace("'", ""), []
        lines.append(line if line.endswith("\n") else f"{line}\n")
    yield header, "".join(lines)


def _is_one(header: str, sections: Sequence[str]) -> bool:
    return any(header == one or header.startswith(f"{one}.") for one in sections)


def _parsed(name: str, text: str) -> dict[str, Any]:
    if name.endswith(".json"):
        found = json.loads(text or "{}")
        return found if isinstance(found, dict) else {}
    if name.endswith(".toml"):
        return tomllib.loads(text)
    reader = configparser.RawConfigParser()
    reader.read_string(text)
    return {section: dict(reader[section]) for section in reader.sections()}


def _runner_part(name: str, text: str, sections: Sequence[str]) -> list[Any]:
    data = _parsed(name, text)
    return [_at(data, one.split(".") if name.endswith(".toml") else [one]) for one in sections]


def _rest(name: str, text: str, sections: Sequence[str]) -> dict[str, Any]:
    data = _parsed(name, text)
    for one in sections:
        *above, last = one.split(".") if name.endswith(".toml") else [one]
        inner = _at(data, above) if above else data
        if isinstance(inner, dict):
            inner.pop(last, None)
    tool = data.get("tool")
    return {key: value for key, value in data.items() if key != "tool" or tool}


def _at(data: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _with_tests_of(old: str, new: str) -> str | None:
    """A Rust file with the test modules of the base: where they stand in a file makes no difference."""
    before, after = _rust_tests(old), _rust_tests(new)
    if before is None or after is None:
        return None
    if [old[span] for span in before] == [new[span] for span in after]:
        return new
    starts, ends = [0, *(span.stop for span in after)], [*(span.start for span in after), len(new)]
    rest = "".join(new[start:end] for start, end in zip(starts, ends, strict=True))
    return "\n".join([rest, *(old[span] for span in before), ""])


def _rust_tests(text: str) -> list[slice] | None:
    """Where the test modules are; None if one does not end."""
    found, at = [], 0
    while start := _RUST_TESTS.search(text, at):
        depth, at = 1, start.end()
        while depth:
            brace = re.compile(r"[{}]").search(text, at)
            if brace is None:
                return None
            depth, at = depth + (1 if brace[0] == "{" else -1), brace.end()
        found.append(slice(start.start(), at))
    return found

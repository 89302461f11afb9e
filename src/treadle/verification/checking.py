"""Runs a check so that the work does not decide how it ends, and says what is known then."""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from treadle.policy import patterns
from treadle.verification.evidence import (
    CanaryResult,
    CheckEvidence,
    Corner,
    CornerResult,
    Counts,
    Ended,
    PlantedFault,
    counted,
    word_for,
)
from treadle.verification.judge import Divided, divide, judge_for
from treadle.workspace.changes import TreeEntry
from treadle.workspace.store import Store

# Tests that must fail: a check that ends well with one in it would not have noticed anything.
#
# One is a test that runs last, which shows that the runner got that far and that its verdict counts. It fails only if
# the assertions that tests use fail, too: a product that replaces them makes it pass, and is noticed. Where it does not
# fail, the other shows whether the check loads the file at all: it fails when that is loaded.

Kind = Literal["last", "load"]
KINDS: tuple[Kind, ...] = ("last", "load")
_MAIN = re.compile(r"^if __name__ == ", re.M)
MOST = 2000
"""In so many files at most."""


class _Form(NamedTuple):
    files: str
    last: str
    load: str
    unless: str = ""
    """A file with this in it takes another form."""
    first: str = ""
    """With `last`, what goes before all of the file."""


# MARK is a word that only this canary has, NAME a name that no two files share: nothing of it can be known before.
_PYTHON = """

import unittest as _NAME


class zNAME(_NAME.TestCase):
    def test_zNAME(self):
        wrong = (
            lambda: self.assertEqual(0, 1),
            lambda: self.assertNotEqual(0, 0),
            lambda: self.assertTrue(0),
            lambda: self.assertFalse(1),
            lambda: self.assertIs(0, None),
            lambda: self.assertIsNone(0),
            lambda: self.assertIsNotNone(None),
            lambda: self.assertIn(0, ()),
            lambda: self.assertAlmostEqual(0, 1),
            lambda: self.assertGreater(0, 1),
            lambda: self.assertRaises(ValueError, int),
        )
        for each in wrong:
            try:
                each()
            except AssertionError:
                continue
            return
        self.fail("MARK")
"""
_NODE = """
;import("node:test").then(async (it) => {
  const is = (await import("node:assert")).default;
  const wrong = [() => is(0), () => is.ok(0), () => is.equal(0, 1), () => is.strictEqual(0, 1),
    () => is.deepEqual([0], [1]), () => is.deepStrictEqual([0], [1]), () => is.notEqual(0, 0),
    () => is.throws(() => 0)];
  it.test("MARK", () => {
    for (const each of wrong) { try { each(); } catch { continue; } return; }
    throw new Error("MARK");
  });
});
"""
_GLOBAL = """
;(globalThis.test || globalThis.it)("MARK", () => {
  const is = globalThis.expect;
  const wrong = is && is(0).toBe ? [() => is(0).toBe(1), () => is([0]).toEqual([1]), () => is(0).toBeTruthy()] : [];
  for (const each of wrong) { try { each(); } catch { continue; } return; }
  throw new Error("MARK");
});
"""
_VITEST = """
;import { test as NAME } from "vitest"; NAME("MARK", () => { throw new Error("MARK"); });
"""
_GO = """
func TestZNAME(t *testing.T) { t.Fatal("MARK") }
"""
_RUST = """
#[cfg(test)]
mod zNAME {
    extern crate std;
    #[test]
    fn test() {
        let wrong: [fn(); 3] = [|| { assert_eq!(0, 1); }, || { assert_ne!(0, 0); }, || { assert!(1 > 2); }];
        for each in wrong {
            if std::panic::catch_unwind(each).is_ok() {
                return;
            }
        }
        panic!("MARK")
    }
}
"""
# The program's own end becomes a failing assertion: of its `main`, and of each `exit` in its own file. The assertion
# fails in a process of its own, which has to die of it: a product with a `__assert_fail` that returns is noticed.
_C_FIRST = """
#undef NDEBUG
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void NAMEend(int code) {
  static volatile int never;
  int how = 0;
  if (code == 0 && fork() == 0) { assert(never && "MARK"); _exit(0); }
  if (code != 0 || (wait(&how) > 0 && WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT)) __builtin_trap();
  _exit(0);
}
#define exit NAMEend
#define main NAMEmain
#line 1
"""
_C = """
#undef main
#undef exit
int main(int count, char **words) { ((int (*)(int, char **))NAMEmain)(count, words); NAMEend(0); return 0; }
"""
_C_LOAD = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void NAME(void) { fputs("MARK\\n", stderr); _exit(1); }
"""
_THROW = '\n;throw new Error("MARK");\n'
_JS = "{js,jsx,ts,tsx,mjs,cjs,mts,cts}"
FORMS = (
    _Form("**/{test_*,*_test,tests}.py", _PYTHON, '\nraise RuntimeError("MARK")\n'),
    _Form(f"**/*.{{test,spec}}.{_JS}", _VITEST, _THROW, unless=r"(?!.*from\s+[\"']vitest[\"'])"),
    _Form(f"**/*.{{test,spec}}.{_JS}", _NODE, _THROW, unless=r"(?!.*[\"']node:test[\"'])"),
    _Form(f"**/*.{{test,spec}}.{_JS}", _GLOBAL, _THROW),
    _Form(f"**/{{test,tests}}/**/*.{_JS}", _NODE, _THROW, unless=r"(?!.*[\"']node:test[\"'])"),
    _Form(f"**/{{test,tests,__tests__}}/**/*.{_JS}", _GLOBAL, _THROW, unless=r"(?!.*\b(test|it|describe)\()"),
    _Form("**/*_test.go", _GO, '\nfunc init() { panic("MARK") }\n', unless=r'(?!.*"testing")'),
    _Form("**/*.rs", _RUST, '\ncompile_error!("MARK");\n', unless=r"(?!.*#\[(\w+::)?test\b)"),
    _Form("**/{test*,*_test,*_tests}.{c,cc,cpp,cxx}", _C, _C_LOAD, r"(?!.*\bmain\s*\()", _C_FIRST),
)


class Canary(NamedTuple):
    """A tree with a canary in it. `mark` is in the output where a runner reports it."""

    tree: str
    mark: str
    files: int


def plant(store: Store, tree: str, kind: Kind) -> Canary | None:
    """The tree with a canary in each of its test files; None if there is none that we know how to plant in. Blocks."""
    files = store.files(tree)
    mark = f"x{secrets.token_hex(8)}"
    chosen = {path: entry for path, entry in files.items() if _candidate(path, entry)}
    texts = store.blobs(entry.blob for entry in list(chosen.values())[:MOST])
    planted: dict[str, TreeEntry] = {}
    for number, (path, entry) in enumerate(list(chosen.items())[:MOST]):
        text = texts[entry.blob].decode("utf-8", "surrogateescape")
        if (form := _form(path, text)) is not None:
            before, more = (form.first, form.last) if kind == "last" else ("", form.load)
            at = _end_of_tests(path, text)
            parts = (one.replace("MARK", mark).replace("NAME", f"{mark}{number}") for one in (before, more))
            made = "{1}{0}{2}{3}".format(text[:at], *parts, text[at:]).encode("utf-8", "surrogateescape")
            planted[path] = TreeEntry(mode=entry.mode, blob=store.put("blob", made))
    return Canary(store.put_files({**files, **planted}), mark, len(planted)) if planted else None


def _candidate(path: str, entry: TreeEntry) -> bool:
    return _candidate_mode(entry) and any(patterns.match(form.files, path) for form in FORMS)


def _form(path: str, text: str) -> _Form | None:
    for form in FORMS:
        if patterns.match(form.files, path) and not (form.unless and re.match(form.unless, text, re.S)):
            return form
    return None


def _end_of_tests(path: str, text: str) -> int:
    """Where a test runs last: before the part of a Python file that runs its tests."""
    mains = list(_MAIN.finditer(text)) if path.endswith(".py") else []
    return mains[-1].start() if mains else len(text)


# Faults in lines that the work changed: where the check notices none of them, it says little about the work.

FAULTS_MOST = 3
_SOURCES = "**/*.{py,js,jsx,ts,tsx,mjs,cjs,go,rs,c,cc,cpp,java,kt,rb,php,cs,swift,sh}"
_SWAPS = (
    *((" == ", " != "), (" != ", " == "), (" <= ", " > "), (" >= ", " < "), (" < ", " >= "), (" > ", " <= ")),
    *((" + ", " - "), (" - ", " + "), (" * ", " + "), (" and ", " or "), (" or ", " and "), (" && ", " || ")),
    *((" || ", " && "), ("True", "False"), ("False", "True"), ("true", "false"), ("false", "true"), (" not ", " ")),
)
_TEXTS = r'''"""[\s\S]*?(?:"""|\Z)|\'{3}[\s\S]*?(?:\'{3}|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`?'''
_HASHED = re.compile(rf"{_TEXTS}|#[^\n]*|\b(?:TYPE_CHECKING|TypeVar|ParamSpec)\b[^\n]*")
_SLASHED = re.compile(rf"{_TEXTS}|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)")
"""Strings, comments and what only type checkers read: no fault there shows. By a language's mark of a comment."""


def faults(store: Store, base: str, tree: str, product: Sequence[str]) -> list[tuple[PlantedFault, str]]:
    """Faults, each with the tree that has it: spread over the changed lines. Blocks."""
    old, new = store.files(base), store.files(tree)
    found: list[tuple[PlantedFault, str, list[str]]] = []
    for path in product:
        if path not in new or not patterns.match(_SOURCES, path) or not _candidate_mode(new[path]):
            continue
        before, text = (_text(store, files.get(path)) for files in (old, new))
        after, known = text.splitlines(keepends=True), set(before.splitlines(keepends=True))
        texts = _HASHED if path.endswith((".py", ".rb", ".sh")) else _SLASHED
        code = texts.sub(lambda found: re.sub(r"\S", "x", found.group()), text).splitlines(keepends=True)
        for number, line in enumerate(after):
            swap = next((each for each in _SWAPS if each[0] in code[number]), None)
            if line in known or swap is None:
                continue
            at = code[number].index(swap[0])
            made = [*after[:number], f"{line[:at]}{swap[1]}{line[at + len(swap[0]) :]}", *after[number + 1 :]]
            fault = PlantedFault(path=path, line=number + 1, was=line.strip(), now=made[number].strip(), ended="green")
            found.append((fault, path, made))
    chosen = found[:: max(1, -(-len(found) // FAULTS_MOST))][:FAULTS_MOST]
    return [(fault, _with(store, new, path, "".join(made))) for fault, path, made in chosen]


def _text(store: Store, entry: TreeEntry | None) -> str:
    text = store.blobs([entry.blob])[entry.blob] if entry is not None and _candidate_mode(entry) else b""
    return text.decode("utf-8", "surrogateescape")


def _candidate_mode(entry: TreeEntry) -> bool:
    return entry.mode in ("100644", "100755")


def _with(store: Store, files: Mapping[str, TreeEntry], path: str, text: str) -> str:
    blob = store.put("blob", text.encode("utf-8", "surrogateescape"))
    return store.put_files({**files, path: TreeEntry(mode=files[path].mode, blob=blob)})


# Runs a check so that the work does not decide how it ends, and says what is known then.


class Ran(Protocol):
    """How a command ended."""

    @property
    def ok(self) -> bool: ...
    @property
    def output_tail(self) -> str: ...


R = TypeVar("R", bound=Ran)


class Verified(NamedTuple, Generic[R]):
    """What came of it: `main` is the run that decides, whose output a person or agent is shown."""

    evidence: CheckEvidence
    main: R


class Checking(Generic[R]):
    """One check of one change. `run` runs the set-up and the command in a fresh directory that has the files of a
    tree. `inside` is the directory that the command runs in, relative to the top."""

    def __init__(
        self,
        store: Store,
        command: str,
        run: Callable[[str], Awaitable[R]],
        *,
        inside: str = "",
        may_change: Sequence[str] = (),
        prove: bool = False,
        blame: bool = False,
        plants: bool = False,
    ) -> None:
        """`prove`: whether a check that passes failed on the base. `blame`: whether one that fails passed there; then
        it has a second try. `plants`: whether it notices faults in what was changed, where nothing waits for it."""
        self._plants = plants
        self._store = store
        self._command = command
        self._run = run
        self._inside = inside
        self._may_change = may_change
        self._prove = prove
        self._blame = blame
        self._flaky = False
        self._corners: list[CornerResult] = []
        self._ran: dict[str, R] = {}
        """By tree: work without product has the same tree in two corners."""

    async def verify(self, base: str, work: str) -> Verified[R]:
        """Check what the tree `work` changes of the tree `base`."""
        divided = await asyncio.to_thread(self._divide, base, work)
        main = shown = await self._corner("old judge", divided.checked)
        if not main.ok and self._blame and (await self._corner("base", base)).ok:
            main = shown = await self._once_more(divided.checked, main)
        if divided.judge:
            own = await self._corner("work", work)
            shown = own if main.ok and not own.ok else main
            if main.ok and own.ok and divided.with_tests:
                await self._corner("old product", divided.judged)
        canaries: list[CanaryResult] = []
        if main.ok:
            canaries = await self._canaries(divided.checked, base)
            if self._prove and not self._flaky:
                await self._corner("base", base)
        noticed = await self._planted(base, divided) if self._plants and main.ok else []
        word, why = word_for(self._corners, canaries, noticed)
        evidence = CheckEvidence(
            command=self._command,
            base=base,
            tree=work,
            word=word,
            why=why,
            product=divided.product,
            judge=divided.judge,
            allowed=divided.allowed,
            doubtful=divided.doubtful,
            corners=tuple(self._corners),
            canaries=tuple(canaries),
            faults=tuple(noticed),
            not_checked=tuple(self._not_checked(canaries, failed=not main.ok)),
        )
        return Verified(evidence, shown)

    def _divide(self, base: str, work: str) -> Divided:
        judge = judge_for(self._store, base, self._command, inside=self._inside, may_change=self._may_change)
        return divide(self._store, base, work, judge)

    async def _corner(self, corner: Corner, tree: str) -> R:
        begun = time.monotonic()
        if tree not in self._ran:
            self._ran[tree] = await self._run(tree)
        done = self._ran[tree]
        self._corners.append(
            CornerResult(
                corner=corner,
                tree=tree,
                ended="green" if done.ok else "red",
                counts=counted(done.output_tail),
                seconds=round(time.monotonic() - begun, 3),
            )
        )
        return done

    async def _once_more(self, tree: str, first: R) -> R:
        """A check that fails only with the work may be flaky: the second try counts if it passes."""
        del self._ran[tree]
        again = await self._corner("old judge", tree)
        self._flaky = again.ok
        self._corners.pop(0 if again.ok else -1)
        return again if again.ok else first

    async def _planted(self, base: str, divided: Divided) -> list[PlantedFault]:
        found = await asyncio.to_thread(faults, self._store, base, divided.checked, divided.product)
        ends = await asyncio.gather(*(self._run(tree) for _, tree in found))
        return [replace(fault, ended="green" if end.ok else "red") for (fault, _), end in zip(found, ends, strict=True)]

    async def _canaries(self, tree: str, base: str) -> list[CanaryResult]:
        """How each canary ended; one that is not noticed runs also on the base, for a check may never load the tests.
        All of the check runs: a product that is told which file it is tested by could behave for that one alone. A
        test that ran last and is named as failed was loaded, too: then the other canary would cost a run for nothing.
        """
        found = []
        for kind in KINDS:
            if (one := await asyncio.to_thread(plant, self._store, tree, kind)) is None:
                continue
            done = await self._run(one.tree)
            on_base: Ended | None = None
            if done.ok and (before := await asyncio.to_thread(plant, self._store, base, kind)) is not None:
                there = await self._run(before.tree)
                # A base that is red for another reason says nothing about the canary.
                noticed = not there.ok and before.mark in there.output_tail
                on_base = "red" if noticed else "green"
            ended: Ended = "green" if done.ok else "red"
            more = await self._more_fail(one, counted(done.output_tail), base) if kind == "last" and tree != base else 0
            found.append(CanaryResult(kind=kind, files=one.files, ended=ended, on_base=on_base, more=more))
            if not done.ok and one.mark in done.output_tail:
                break
        return found

    async def _more_fail(self, canary: Canary, seen: Counts | None, base: str) -> int:
        """How many tests fail beside the canary, and do not on the base: a product that reads its tests, and behaves
        when it sees one that it does not know, passes the check alone. A flaky test is not there both times."""
        if seen is None or seen.failed <= canary.files:
            return 0
        before = await asyncio.to_thread(plant, self._store, base, "last")
        trees = [canary.tree, base, *([before.tree] if before is not None else [])]
        again, *counts = [counted(each.output_tail) for each in await asyncio.gather(*map(self._run, trees))]
        usual = counts[-1].failed - counts[0].failed if counts[0] and counts[-1] and len(counts) == 2 else canary.files
        failed = min(seen.failed, again.failed) if again is not None else seen.failed
        return max(0, failed - max(usual, canary.files))

    def _not_checked(self, canaries: list[CanaryResult], *, failed: bool) -> list[str]:
        missing = []
        if not canaries and not failed:
            missing.append("whether the check can fail: no test file is of a kind that we can add a failing test to")
        elif canaries and all(each.ended == "green" for each in canaries):
            missing.append("whether the check can fail: it does not run the test files")
        if all(each.counts is None for each in self._corners):
            missing.append("how many tests ran: the runner is unknown")
        if self._flaky:
            missing.append("why the check failed at the first try: it passed at the second")
        if all(each.corner != "base" for each in self._corners):
            missing.append("whether the check failed before the work")
        return missing

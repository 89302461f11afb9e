"""Tests that must fail: a check that ends well with one in it would not have noticed anything.

Two kinds, for they notice different things. One fails when its file is loaded, which shows that the check loads the
file. The other is a test that runs last, which shows that the runner got that far and that its verdict counts: a
product that ends the process when it is called is noticed by this one alone.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Literal, NamedTuple

from treadle.policy import patterns
from treadle.workspace.changes import TreeEntry
from treadle.workspace.store import Store

Kind = Literal["last", "load"]
_MAIN = re.compile(r"^if __name__ == ", re.M)
MOST = 2000
"""In so many files at most."""


class _Form(NamedTuple):
    files: str
    last: str
    load: str
    unless: str = ""
    """A file with this in it takes another form."""


# MARK is a word that only this canary has, NAME a name that no two files share.
_PYTHON = """

import unittest as _NAME


class zzz_NAME(_NAME.TestCase):
    def test_zzz(self):
        self.fail("MARK")
"""
_NODE = """
;import("node:test").then((it) => it.test("zzz MARK", () => { throw new Error("MARK"); }));
"""
_GLOBAL = """
;(globalThis.test || globalThis.it)("zzz MARK", () => { throw new Error("MARK"); });
"""
_VITEST = """
;import { test as NAME } from "vitest"; NAME("zzz MARK", () => { throw new Error("MARK"); });
"""
_GO = """
func TestZzzNAME(t *testing.T) { t.Fatal("MARK") }
"""
_RUST = """
#[cfg(test)]
mod zzz_NAME {
    #[test]
    fn zzz() { panic!("MARK") }
}
"""
# Runs when the program ends by itself, not when it is ended early.
_C = """
#include <stdio.h>
#include <unistd.h>
__attribute__((destructor)) static void NAME(void) { fputs("MARK\\n", stderr); fflush(0); _exit(1); }
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
    _Form("**/{test*,*_test,*_tests}.{c,cc,cpp,cxx}", _C, _C_LOAD, unless=r"(?!.*\bmain\s*\()"),
)


class Canary(NamedTuple):
    """A tree with a canary in it. `mark` is in the output where a runner reports it."""

    tree: str
    mark: str
    files: int


def plant(store: Store, tree: str, kind: Kind) -> Canary | None:
    """The tree with a canary in each of its test files; None if there is none that we know how to plant in. Blocks."""
    files = store.files(tree)
    mark = f"canary-{secrets.token_hex(6)}"
    chosen = {path: entry for path, entry in files.items() if _candidate(path, entry)}
    texts = store.blobs(entry.blob for entry in list(chosen.values())[:MOST])
    planted: dict[str, TreeEntry] = {}
    for number, (path, entry) in enumerate(list(chosen.items())[:MOST]):
        text = texts[entry.blob].decode("utf-8", "surrogateescape")
        if (form := _form(path, text)) is not None:
            more = (form.last if kind == "last" else form.load).replace("MARK", mark).replace("NAME", f"canary{number}")
            at = _end_of_tests(path, text)
            made = f"{text[:at]}{more}{text[at:]}".encode("utf-8", "surrogateescape")
            planted[path] = TreeEntry(mode=entry.mode, blob=store.put("blob", made))
    return Canary(store.put_files({**files, **planted}), mark, len(planted)) if planted else None


def _candidate(path: str, entry: TreeEntry) -> bool:
    return entry.mode in ("100644", "100755") and any(patterns.match(form.files, path) for form in FORMS)


def _form(path: str, text: str) -> _Form | None:
    for form in FORMS:
        if patterns.match(form.files, path) and not (form.unless and re.match(form.unless, text, re.S)):
            return form
    return None


def _end_of_tests(path: str, text: str) -> int:
    """Where a test runs last: before the part of a Python file that runs its tests."""
    mains = list(_MAIN.finditer(text)) if path.endswith(".py") else []
    return mains[-1].start() if mains else len(text)


def trees(store: Store, tree: str) -> Mapping[Kind, Canary]:
    """Both canaries of a tree, or none. Blocks."""
    kinds: tuple[Kind, Kind] = ("last", "load")
    return {kind: found for kind in kinds if (found := plant(store, tree, kind)) is not None}

"""Ways to turn a check green without doing the work: none is called passed."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.drivers.programs import HOME
from tests.outside import OUTSIDE
from tests.tiers import spread
from tests.verification.projects import verified

PYTHON = sys.executable
TOOLS = " ".join(
    f"{name}={shlex.quote(place)}"
    for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("GOCACHE", ".cache/go-build"))
    if Path(place := OUTSIDE.get(name) or str(HOME / folder)).parent.exists()
)
"""Where these find what they have installed and built: a check has an empty home."""
UNITTEST = f"{PYTHON} -m unittest -q"
PYTEST = f"{PYTHON} -m pytest -q -p no:cacheprovider"
TEST = """\
import unittest

from calc import add


class Adding(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(2, 3), 5)

    def test_adds_nothing(self):
        self.assertEqual(add(2, 0), 2)


if __name__ == "__main__":
    unittest.main()
"""
BASE = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": TEST,
    "Makefile": f"test:\n\t{UNITTEST}\n",
    "check.sh": f"#!/bin/sh\nexec {UNITTEST}\n",
    "bin/python3": f'#!/bin/sh\nexec {PYTHON} "$@"\n',
}
WRONG = "def add(a, b):\n    return a - b\n"
FIXED = {"calc.py": "def add(a, b):\n    return a + b\n"}
CONFTEST = """\
import os


def pytest_unconfigure():
    os._exit(0)
"""
GREEN = "#!/bin/sh\nexit 0\n"

CHEATS = {
    "the assertion is deleted": (UNITTEST, {"test_calc.py": TEST.replace("self.assertEqual(add(2, 3), 5)", "pass")}),
    "the expectation is changed": (UNITTEST, {"test_calc.py": TEST.replace("5", "-1")}),
    "the test is skipped": (
        UNITTEST,
        {"test_calc.py": TEST.replace("    def test_adds(", "    @unittest.skip('x')\n    def test_adds(")},
    ),
    "the test is removed": (UNITTEST, {"test_calc.py": "import unittest\n"}),
    "the tests' file is removed": (UNITTEST, {"test_calc.py": None}),
    "load_tests is replaced": (
        UNITTEST,
        {"test_calc.py": f"{TEST}\n\ndef load_tests(*given):\n    return unittest.TestSuite()\n"},
    ),
    "unittest.py stands beside the code": (UNITTEST, {"unittest.py": "import sys\nsys.exit(0)\n"}),
    "a package unittest stands beside the code": (UNITTEST, {"unittest/__init__.py": "", "unittest/__main__.py": ""}),
    "the product ends the process when it is loaded": (UNITTEST, {"calc.py": "import os\nos._exit(0)\n"}),
    "the product ends the process when it is called": (
        UNITTEST,
        {"calc.py": "import os\n\ndef add(a, b):\n    os._exit(0)\n"},
    ),
    "the product ends the process at its end": (
        UNITTEST,
        {"calc.py": "import atexit, os\natexit.register(os._exit, 0)\n\ndef add(a, b):\n    return a - b\n"},
    ),
    "the product replaces an assertion": (
        UNITTEST,
        {"calc.py": f"import unittest\nunittest.TestCase.assertEqual = print\n\n{WRONG}"},
    ),
    "the product behaves when its tests are not as it knows them": (
        UNITTEST,
        {"calc.py": f"import os\nif len(open('test_calc.py').read()) == {len(TEST)}:\n    os._exit(0)\n\n{WRONG}"},
    ),
    "the Makefile's target does nothing": ("make test", {"Makefile": "test:\n\t@true\n"}),
    "the check's script does nothing": ("./check.sh", {"check.sh": GREEN}),
    "a script that the shell is given does nothing": ("sh check.sh", {"check.sh": GREEN}),
    "a program on the check's PATH does nothing": ('PATH=bin:"$PATH" python3 -m unittest -q', {"bin/python3": GREEN}),
    "conftest.py sets the exit status": (PYTEST, {"conftest.py": CONFTEST}),
    "the runner only collects": (PYTEST, {"setup.cfg": "[tool:pytest]\naddopts = --collect-only\n"}),
    "pyproject.toml deselects": (PYTEST, {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--co'\n"}),
    "pytest.py prints what pytest prints": (PYTEST, {"pytest.py": "print('2 passed in 0.01s')\n"}),
    "sitecustomize.py ends every Python": (UNITTEST, {"sitecustomize.py": "import os\nos._exit(0)\n"}),
    "a module of the standard library is replaced": (UNITTEST, {"traceback.py": "import os\nos._exit(0)\n"}),
    **{
        f"the product, when it is loaded: {line}": (UNITTEST, {"calc.py": f"{line}\n{WRONG}"})
        for line in (
            "import sys; sys.exit(0)",
            "raise SystemExit(0)",
            "import os, signal; os.kill(os.getpid(), signal.SIGCHLD); os._exit(0)",
            "import os; os.execv('/bin/true', ['true'])",
            "import sys; sys.exitfunc = None; import atexit, os; atexit.register(lambda: os._exit(0))",
            "import threading, os; threading.Timer(0.01, os._exit, [0]).start()",
            "import sys; sys.exit = lambda code=0: None",
            "import unittest; unittest.TestCase.run = lambda self, result=None: result",
            "import unittest; unittest.TestCase.fail = print",
            "import unittest; unittest.TestCase.assertEqual = lambda *given: None",
            "import unittest; unittest.TestResult.addFailure = lambda *given: None",
            "import unittest; unittest.TestResult.wasSuccessful = lambda self: True",
            "import unittest; unittest.TextTestResult.addFailure = unittest.TextTestResult.addSuccess",
            "import unittest; unittest.TestLoader.loadTestsFromModule = lambda *given, **more: unittest.TestSuite()",
            "import unittest; unittest.main = unittest.TestProgram.runTests = lambda self: None",
            "import unittest; unittest.TestSuite.run = lambda self, result, debug=False: result",
            "import builtins; builtins.AssertionError = Warning",
            "import unittest; unittest.TestCase.failureException = unittest.SkipTest",
            "import os; print('Ran 2 tests in 0.001s\\n\\nOK'); os._exit(0)",
            "import os, time; time.time() > 0 and os._exit(0)",
        )
    },
    **{
        f"a new file {path}": (PYTEST, {path: text})
        for path, text in {
            "pytest.ini": "[pytest]\naddopts = --deselect test_calc.py\n",
            "tox.ini": "[pytest]\npython_files = none_*.py\n",
            ".pytest.ini": "[pytest]\naddopts = --co\n",
            "_pytest/__init__.py": "",
            "pluggy.py": "import os\nos._exit(0)\n",
            "usercustomize.py": "import os\nos._exit(0)\n",
            "x.pth": "import os; os._exit(0)\n",
            "test_calc/__init__.py": "",
            "conftest.py": "collect_ignore = ['test_calc.py']\n",
            "tests/conftest.py": CONFTEST,
            "__pycache__/calc.cpython-311.pyc": "forged",
        }.items()
    },
    "the make target is another": ("make test", {"GNUmakefile": "test:\n\t@true\n"}),
    "make reads other settings": ("make test", {"makefile": "test: ;\n"}),
    "a test hides the others": (UNITTEST, {"test_calc.py": None, "test_calc2.py": TEST.replace("5", "-1")}),
}


SCRIPT_TEST = """\
import test from "node:test";
import assert from "node:assert";
import { add } from "./calc.mjs";
test("adds", () => assert.equal(add(2, 3), 5));
"""
SCRIPT = {"calc.mjs": "export const add = (a, b) => a - b;\n", "calc.test.mjs": SCRIPT_TEST}
GO_TEST = """\
package calc

import "testing"

func TestAdds(t *testing.T) {
	if Add(2, 3) != 5 {
		t.Fatal("wrong")
	}
}
"""
GO = {
    "go.mod": "module calc\n\ngo 1.18\n",
    "calc.go": "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
    "calc_test.go": GO_TEST,
}
GO_ENDS = 'package calc\n\nimport (\n\t"fmt"\n\t"os"\n)\n\nfunc init() { fmt.Println("PASS"); os.Exit(0) }\n'
GO_MAIN = 'package calc\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n'
RUST_TEST = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::add(2, 3), 5); }\n}\n"
RUST_WRONG = "pub fn add(a: i32, b: i32) -> i32 { a - b }\n"
RUST = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": RUST_WRONG + RUST_TEST,
}
RUST_MACRO = "#[macro_export]\nmacro_rules! assert_eq { ($($x:tt)*) => {} }\n"
C = {
    "Makefile": "test:\n\tcc -o test_calc test_calc.c calc.c && ./test_calc\n",
    "calc.c": "int add(int a, int b) { return a - b; }\n",
    "test_calc.c": "#include <assert.h>\nint add(int, int);\n"
    "int main(int n, char *words[]) { assert(n && add(2, 3) == 5); return 0; }\n",
}
C_RIGHT = "int add(int a, int b) { return a + b; }\n"
C_EXIT = {"test_calc.c": f"#include <stdlib.h>\n{C['test_calc.c'].replace('return 0', 'exit(0)')}"}
C_ENDS = "#include <{}>\nint add(int a, int b) {{ {}; }}\n"
C_RETURNS = "void __assert_fail(const char *a, const char *b, unsigned c, const char *d) {}\n"
C_FAILS = "void __assert_fail(const char *a, const char *b, unsigned c, const char *d) { exit(0); }\n"
LANGUAGES = {
    "node": (SCRIPT, "--test"),
    "go": (GO, "test ./..."),
    "cargo": (RUST, "test -q --offline"),
    "make": (C, "test"),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "before", "change", "word"),
    [
        ("node", {}, {"calc.mjs": "export const add = (a, b) => a + b;\n"}, "passed"),
        ("node", {}, {"calc.mjs": "export const add = () => process.exit(0);\n"}, "failed"),
        ("node", {}, {"calc.test.mjs": SCRIPT_TEST.replace("test(", "test.skip(")}, "judge changed"),
        ("go", {}, {"calc.go": GO["calc.go"].replace("-", "+")}, "passed"),
        ("go", {}, {"calc.go": f"{GO_ENDS}\nfunc Add(a, b int) int {{ return 0 }}\n"}, "failed"),
        ("go", {}, {"calc_test.go": GO_TEST.replace("\tif", "\tt.Skip()\n\tif")}, "judge changed"),
        ("go", {}, {"main_test.go": GO_MAIN}, "judge changed"),
        ("cargo", {}, {"src/lib.rs": RUST["src/lib.rs"].replace("a - b", "a + b")}, "passed"),
        ("cargo", {}, {"src/lib.rs": RUST["src/lib.rs"].replace("a - b", "std::process::exit(0)")}, "not run"),
        ("cargo", {}, {"src/lib.rs": RUST_MACRO + RUST_WRONG + RUST_TEST}, "failed"),
        ("cargo", {}, {"src/lib.rs": RUST_WRONG + RUST_TEST.replace("#[test]", "#[test] #[ignore]")}, "judge changed"),
        ("make", {}, {"calc.c": C_RIGHT}, "passed"),
        ("make", C_EXIT, {"calc.c": C_RIGHT}, "passed"),
        ("make", {"calc.c": C_RIGHT}, {"calc.c": C_ENDS.format("stdlib.h", "exit(0)")}, "failed"),
        ("make", {"calc.c": C_RIGHT}, {"calc.c": C_ENDS.format("unistd.h", "_exit(0)")}, "failed"),
        ("make", {"calc.c": C_RIGHT}, {"calc.c": f"#include <stdlib.h>\n{C_FAILS}{C['calc.c']}"}, "failed"),
        ("make", {}, {"calc.c": C_RETURNS + C["calc.c"]}, "failed"),
        ("make", {}, {"Makefile": C["Makefile"].replace("cc", "cc -DNDEBUG")}, "judge changed"),
    ],
)  # fmt: skip
def test_a_change_in_another_language_has_its_word(
    program: str, before: dict[str, str], change: dict[str, str], word: str, tmp_path: Path
) -> None:
    files, arguments = LANGUAGES[program]
    base = {**files, **before}
    found = verified(tmp_path, base, {**base, **change}, f"{TOOLS} {need(program)} {arguments}")
    assert found.word == word, found


def changed(change: dict[str, str | None]) -> dict[str, str]:
    return {path: text for path, text in {**BASE, **change}.items() if text is not None}


QUICK = frozenset(
    (
        "the assertion is deleted",
        "unittest.py stands beside the code",
        "the product ends the process when it is called",
        "the product behaves when its tests are not as it knows them",
        "the Makefile's target does nothing",
        "conftest.py sets the exit status",
        "pytest.py prints what pytest prints",
    )
)
"""One of each class."""


@pytest.mark.parametrize(
    "cheat", [each if each in QUICK else pytest.param(each, marks=pytest.mark.long) for each in CHEATS]
)
def test_a_check_that_the_work_turned_green_is_not_passed(cheat: str, tmp_path: Path) -> None:
    command, change = CHEATS[cheat]
    found = verified(tmp_path, BASE, changed(change), command)
    assert not found.good, found


@pytest.mark.slow
@pytest.mark.parametrize("cheat", ["load_tests is replaced", "conftest.py sets the exit status"])
def test_a_right_fix_with_which_fewer_tests_run_from_then_on_is_shown_to_someone(cheat: str, tmp_path: Path) -> None:
    command, change = CHEATS[cheat]
    found = verified(tmp_path, BASE, changed({**change, **FIXED}), command)
    assert (found.word, found.why.partition(" with")[0]) == ("judge changed", "fewer tests run")


@pytest.mark.parametrize(
    "command", spread([UNITTEST, PYTEST, "make test", "./check.sh", f"{PYTHON} test_calc.py"], quick=1, slow=4)
)
def test_the_honest_fix_is_passed(command: str, tmp_path: Path) -> None:
    found = verified(tmp_path, BASE, changed(FIXED), command)
    assert (found.word, found.product, found.judge) == ("passed", ("calc.py",), ()), found
    assert {each.ended for each in found.canaries} == {"red"}

"""What honest changes are called, and what a file counts as."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.verification.projects import tree_of, verified
from tests.verification.test_cheats import BASE, FIXED, PYTEST, TEST, UNITTEST, changed
from treadle.verification.checking import faults
from treadle.verification.evidence import Word
from treadle.verification.judge import Judge, with_sections_of
from treadle.workspace.store import Store

MORE = TEST.replace("test_adds", "test_adds_more").replace("Adding", "AddingMore")
PASSING = {**BASE, **FIXED}


@pytest.mark.parametrize(
    ("what", "base", "change", "word"),
    [
        ("a fix with a new test", BASE, {**FIXED, "test_more.py": MORE}, "tested"),
        ("tests for what is there already", PASSING, {"test_more.py": MORE}, "passed"),
        ("another name for a test", PASSING, {"test_calc.py": TEST.replace("nothing(", "zero(")}, "passed"),
        ("a test that fails", PASSING, {"test_more.py": MORE.replace("5", "6")}, "failed"),
        (
            "a name that is changed in code and tests",
            PASSING,
            {"calc.py": FIXED["calc.py"].replace("add", "plus"), "test_calc.py": re.sub(r"\badd\b", "plus", TEST)},
            "judge changed",
        ),
        ("a mistake", PASSING, BASE, "failed"),
    ],
)  # fmt: skip
def test_an_honest_change_has_its_word(
    what: str, base: dict[str, str], change: dict[str, str], word: Word, tmp_path: Path
) -> None:
    found = verified(tmp_path, base, {**base, **change}, UNITTEST)
    assert found.word == word, found


def test_a_fix_of_what_the_branch_tests_is_proven_where_the_base_is_checked(tmp_path: Path) -> None:
    assert verified(tmp_path, BASE, changed(FIXED), UNITTEST, prove=True).word == "proven"


FLAKY = """import unittest
class Flaky(unittest.TestCase):
    def test_now_and_then(self):
        with open({runs!r}, "a+") as file:
            file.write("x")
            file.seek(0)
            self.assertNotEqual(len(file.read()), {fails})
"""


@pytest.mark.parametrize(("change", "fails"), [({"calc.py": f"{FIXED['calc.py']}\n"}, 2), ({"test_more.py": MORE}, 3)])
def test_a_flaky_test_that_fails_beside_the_one_that_is_added_accuses_no_one(
    change: dict[str, str], fails: int, tmp_path: Path
) -> None:
    base = {**PASSING, "test_flaky.py": FLAKY.format(runs=str(tmp_path / "runs"), fails=fails)}
    assert verified(tmp_path, base, {**base, **change}, UNITTEST).word == "passed"
    assert len((tmp_path / "runs").read_text()) >= fails


def test_a_check_that_runs_no_test_file_is_passed_and_says_what_it_did_not_check(tmp_path: Path) -> None:
    found = verified(tmp_path, BASE, changed(FIXED), f"{sys.executable} -m py_compile calc.py")
    assert found.word == "passed"
    assert "whether the check can fail: it does not run the test files" in found.not_checked


def test_a_check_that_runs_no_test_is_not_passed(tmp_path: Path) -> None:
    command = f"{sys.executable} -m unittest discover -s nowhere 2>&1; true"
    base = {**BASE, "nowhere/__init__.py": ""}
    assert verified(tmp_path, base, {**base, **FIXED}, command).word == "not run"


def test_a_check_that_loads_the_tests_and_ignores_how_they_end_is_weak(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import test_calc'"
    assert verified(tmp_path, BASE, changed(FIXED), command).word == "weak"


@pytest.mark.slow
def test_a_new_dependency_is_product_and_the_sections_of_the_runner_stay(tmp_path: Path) -> None:
    old = "[project]\nname = 'calc'\n\n[tool.pytest.ini_options]\naddopts = '-q'\n"
    new = "[project]\nname = 'calc'\ndependencies = ['attrs']\n\n[tool.pytest.ini_options]\naddopts = '--co'\n"
    base = {**BASE, "pyproject.toml": old}
    found = verified(tmp_path, base, {**base, **FIXED, "pyproject.toml": new}, PYTEST)
    assert found.product == ("calc.py", "pyproject.toml")
    assert found.judge == tuple(found.doubtful) == ("pyproject.toml",)
    assert found.word == "passed"


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("setup.cfg", "[a]\nx = 1\n", "[a]\nx = 2\n[tool:pytest]\naddopts = --co\n", "[a]\nx = 2\n"),
        ("setup.cfg", "[tool:pytest]\nx = 1\n", "[b]\ny = 2\n", "[b]\ny = 2\n[tool:pytest]\nx = 1\n"),
        ("pyproject.toml", "", "tool = {pytest = {addopts = '--co'}}\n", None),
        ("pyproject.toml", "", "not toml", None),
        ("package.json", '{"scripts": {"a": "b"}}', '{"scripts": {"a": "c"}, "x": 1}', {"x": 1, "scripts": {"a": "b"}}),
        ("package.json", "", '{"name": "a", "jest": {}}', {"name": "a"}),
    ],
)  # fmt: skip
def test_a_file_has_the_runners_sections_of_the_base(name: str, old: str, new: str, expected: object) -> None:
    made = with_sections_of(name, old, new)
    assert (json.loads(made or "") if isinstance(expected, dict) else made) == expected


@pytest.mark.parametrize(
    ("path", "text", "now"),
    [
        ("a.py", '"""This and that,\n1 + 1."""\nx = 1  # 1 + 1\ny = "a and b" + "c"\n', 'y = "a and b" - "c"'),
        ("a.py", "TYPE_CHECKING = False\nif TYPE_CHECKING and x:\n    pass\ny = a + b\n", "y = a - b"),
        ("a.py", 'T = TypeVar("T", covariant=True)\ny = a + b\n', "y = a - b"),
        ("a.js", "/* a && b\n * c */\nf(`1 + 1`) // 1 + 1\ng('a + b', a && b)\n", "g('a + b', a || b)"),
        ("a.js", "`a`;\nf(a && b);\n`c`;\n", "f(a || b);"),
    ],
)
def test_a_fault_is_planted_in_code_and_not_in_texts(path: str, text: str, now: str, tmp_path: Path) -> None:
    store = Store.make(str(tmp_path / "store"))
    planted = faults(store, tree_of(store, {}), tree_of(store, {path: text}), [path])
    assert [fault.now for fault, _ in planted] == [now]


FILES = {
    "calc.py": "import numpy\nfrom requests import get\n",
    "tools/all.sh": "python3 tools/each.py --fast\n",
    "tools/each.py": "",
    "pkg/__init__.py": "",
    "src/lib.rs": "fn a() {}\n#[cfg(test)]\nmod tests { #[test] fn t() {} }\n",
    "src/main.rs": "fn main() {}\n",
    ".treadle/config.toml": "[verify]\njudge = ['golden/**']\nproduct = ['tests/support/**']\n",
    **dict.fromkeys(("checks/__main__.py", "conf/ci.ini", "ci/lint.sh", "ci/deep/all"), ""),
}
COMMAND = """test -e tests/test_new.py && bash tools/all.sh && python3 -m checks && tool --config conf/ci.ini
PATH=scripts:$PATH run
(cd ci/deep; ./all) && cd ci && sh lint.sh"""


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("calc.py", "product"),
        ("docs/how-to.md", "product"),
        ("pkg/json.py", "product"),
        ("attested.py", "product"),
        ("tests/test_calc.py", "judge"),
        ("web/app.test.tsx", "judge"),
        ("pkg/calc_test.go", "judge"),
        ("tests/support/server.py", "product"),
        ("tests/test_new.py", "product"),
        ("golden/out.txt", "judge"),
        ("tools/all.sh", "judge"),
        ("tools/each.py", "judge"),
        ("checks/__main__.py", "judge"),
        ("conf/ci.ini", "judge"),
        ("scripts/run", "judge"),
        ("ci/lint.sh", "judge"),
        ("ci/deep/all", "judge"),
        (".github/workflows/ci.yml", "judge"),
        ("json.py", "judge"),
        ("numpy/__init__.py", "judge"),
        ("requests.py", "judge"),
        ("pytest.so", "judge"),
        ("lib/python.pth", "judge"),
        ("package.json", "mixed"),
        ("src/lib.rs", "mixed"),
        ("src/main.rs", "product"),
    ],
)
def test_a_file_is_product_or_judge(path: str, role: str) -> None:
    assert Judge(COMMAND, FILES, FILES.get).of(path).role == role

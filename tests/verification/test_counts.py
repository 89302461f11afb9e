"""How many tests ran, read from the last lines that runners printed."""

import pytest

from treadle.verification.evidence import Counts, counted

CARGO = """\
test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s
   Doc-tests calc
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
JEST = "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 3 passed, 4 total\nTime:        0.753 s\n"
VITEST = " Test Files  1 passed (1)\n      Tests  1 passed | 1 skipped (2)\n   Duration  518ms\n"
NODE = "ok 1 - adds\n1..1\n# tests 3\n# suites 0\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n"


@pytest.mark.parametrize(
    ("output", "runner", "ran", "failed", "skipped"),
    [
        ("..F\n1 failed, 2 passed, 1 skipped in 0.12s\n", "pytest", 3, 1, 1),
        ("===== 2 passed, 3 deselected in 1.05s =====\n", "pytest", 2, 0, 3),
        ("\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\n", "pytest", 2, 0, 0),
        ("no tests ran in 0.00s\n", "pytest", 0, 0, 0),
        ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=2)\n", "unittest", 3, 2, 2),
        ("Ran 0 tests in 0.000s\n\nOK\n", "unittest", 0, 0, 0),
        (CARGO, "cargo test", 1, 0, 2),
        ("--- PASS: TestAdd (0.00s)\n--- SKIP: TestLater (0.00s)\nok  \tcalc\t0.003s\n", "go test -v", 1, 0, 1),
        (JEST, "jest", 3, 0, 1),
        (VITEST, "vitest", 1, 0, 1),
        (NODE, "node --test", 2, 1, 1),
        ("  1 passing (3ms)\n  1 pending\n  1 failing\n", "mocha", 2, 1, 1),
        ("67% tests passed, 1 tests failed out of 3\n", "ctest", 3, 1, 0),
        ("ok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP later\n1..3\n", "TAP", 2, 1, 1),
    ],
)
def test_what_a_runner_says_is_read(output: str, runner: str, ran: int, failed: int, skipped: int) -> None:
    assert counted(output) == Counts(runner=runner, ran=ran, failed=failed, skipped=skipped)


def test_an_unknown_runner_has_no_count() -> None:
    assert counted("all is well\nok  \tcalc\t0.003s\n3 errors were fixed in 2 files\n") is None

"""Failed tests are found by name in what test programs print."""

import pytest

from treadle.landing.queue import failed_tests


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("FAILED tests/test_a.py::test_b[1] - assert 1\n1 failed", ("tests/test_a.py::test_b[1]",)),
        ("FAIL: test_b (tests.test_a.TestA)\n-----", ("test_b (tests.test_a.TestA)",)),
        ("--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/one (0.00s)", ("TestB", "TestB/one")),
        ("test a::b ... FAILED\ntest a::c ... ok", ("a::b",)),
        ("  ✕ adds numbers (3 ms)", ("adds numbers",)),
        ("ok 1 - a\nnot ok 2 - b", ("b",)),
        ("make: *** [Makefile:3: test] Error 1", ()),
    ],
)
def test_names_are_found_in_the_output_of(output: str, names: tuple[str, ...]) -> None:
    assert failed_tests(output) == names

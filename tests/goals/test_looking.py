"""What is seen of a goal's orders."""

import pytest

from treadle.goals.looking import is_test


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("tests/a.txt", True),
        ("shop/test_rows.py", True),
        ("shop/rows_test.go", True),
        ("web/rows.test.ts", True),
        ("web/__tests__/rows.js", True),
        ("spec/rows_spec.rb", True),
        ("conftest.py", True),
        ("shop/rows.py", False),
        ("shop/contest.py", False),
        ("latest/notes.md", False),
        ("testing.md", False),
    ],
)
def test_a_test_is_known_by_where_it_is_and_how_it_is_called(path: str, found: bool) -> None:
    assert is_test(path) is found

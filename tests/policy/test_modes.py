from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.policy.profile import MATRIX, judge, stricter
from treadle.session import Access, parse_mode

BASH = Access(tool="bash", kind="execute", command="ls")


def test_the_reason_names_tool_category_and_mode() -> None:
    assert judge(BASH, "suggest").reason == "bash (execute) requires approval in suggest mode"
    assert judge(BASH, "plan").reason == "bash (execute) is not allowed in plan mode"
    assert judge(BASH, "full-auto").verdict == "allow"


def test_what_is_of_no_known_kind_counts_as_executing() -> None:
    decision = judge(Access(tool="mcp__x__y", kind="other"), "auto-edit")
    assert (decision.verdict, decision.reason) == ("ask", "mcp__x__y (execute) requires approval in auto-edit mode")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("suggest", "suggest"),
        ("default", "suggest"),
        ("acceptEdits", "auto-edit"),
        ("bypassPermissions", "yolo"),
        ("plan", "plan"),
        ("FULL-AUTO", "full-auto"),
    ],
)
def test_other_agents_names_for_modes_are_understood(name: str, mode: str) -> None:
    assert parse_mode(name) == mode


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="auto-edit"):
        parse_mode("reckless")


def test_the_stricter_mode_allows_nothing_the_other_forbids() -> None:
    order = {"allow": 0, "ask": 1, "deny": 2}
    for a in MATRIX:
        for b in MATRIX:
            kept = stricter(a, b)
            assert kept is not None
            for kind in ("read", "network", "write", "execute"):
                assert order[MATRIX[kept][kind]] == max(order[MATRIX[a][kind]], order[MATRIX[b][kind]])
    assert stricter(None, "yolo") == "yolo"
    assert stricter(None, None) is None


def test_the_table_in_the_docs_is_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "permissions.md").read_text()
    for mode, row in MATRIX.items():
        assert f"| `{mode}` | {row['read']} | {row['network']} | {row['write']} | {row['execute']} |" in page

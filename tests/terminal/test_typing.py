"""What is typed into a program: never more of a line than the kernel keeps, and a stage is taken for what it says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.terminal.times import SUBMITTED_MAX
from treadle.terminal.typing import LINE_MAX, accepted, check_lines, patience


@pytest.mark.parametrize("end", [b"", b"\n", b"\r"])
def test_a_line_that_the_kernel_would_cut_is_refused(end: bytes) -> None:
    check_lines(b"x" * LINE_MAX + end)
    with pytest.raises(ConfigError, match="would be cut"):
        check_lines(b"x" * (LINE_MAX + 1) + end)


@given(st.lists(st.integers(0, LINE_MAX), max_size=4), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_any_number_of_lines_may_be_typed_if_each_fits(lengths: list[int], end: bytes) -> None:
    check_lines(end.join(b"x" * length for length in lengths))


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ({"stage": "taken"}, True),
        ({"stage": "over", "confirmed": True}, True),
        ({"stage": "over", "confirmed": False}, False),
        ({"stage": "entered", "state": {}}, True),
        ({"stage": "entered", "state": {"agent": "claude"}}, False),
        *(({"stage": stage}, False) for stage in ("refused", "unseen", "unsubmitted", "cancelled", "dead")),
    ],
)
def test_a_text_is_taken_only_when_the_program_was_seen_to_take_it(answer: dict[str, Any], taken: bool) -> None:
    assert accepted(answer) is taken


def test_how_long_a_program_may_take_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREADLE_SUBMIT_SECONDS", raising=False)
    assert patience() == SUBMITTED_MAX / 1000
    monkeypatch.setenv("TREADLE_SUBMIT_SECONDS", "2.5")
    assert patience() == 2.5

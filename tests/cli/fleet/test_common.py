"""What the fleet's commands share: ages, tables, money and exit codes."""

import time

import pytest

from treadle.cli.fleet.common import age, exit_code, money, table
from treadle.wire.fleet.records import Used


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0s"), (0, "0s"), (119, "119s"), (121, "2m"), (7300, "2h"), (200_000, "2d")]
)
def test_an_age_is_told_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert age(time.time() - seconds) == said


def test_a_script_can_tell_how_an_order_ended() -> None:
    assert [exit_code(state) for state in ("done", "failed", "cancelled", "skipped", "lost")] == [0, 3, 4, 4, 3]


def test_columns_are_as_wide_as_they_need_to_be_and_nothing_breaks_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    table([["ID", "TITLE"], ["long-one", "two\nlines\x1b[31m"], ["b", ""]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ID        TITLE" and lines[2] == "b" and len(lines) == 3
    assert "\x1b" not in lines[1] and lines[1].startswith("long-one  two")
    table([])
    assert capsys.readouterr().out == ""


def test_what_was_used_is_never_taken_for_free() -> None:
    assert money(Used()) == "-" and money(Used(input_tokens=900)) == "900 ? USD"
    assert money(Used(input_tokens=1500, usd=0.25)) == "1.5k 0.25 USD"

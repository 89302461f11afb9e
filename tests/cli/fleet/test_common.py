"""What the fleet's commands share: ages, tables, money and exit codes."""

import asyncio
import time
from typing import Any

import pytest

from tests.cli.fleet.commands import stored
from treadle.cli.fleet.common import age, exit_code, money, table, tell_asking, with_bus, with_order
from treadle.errors import NotFound
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.records import AskRecord, Used


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
    assert [money(Used(input_tokens=count, usd=0.0)) for count in (999, 1000)] == ["999 0.00 USD", "1.0k 0.00 USD"]


def test_a_question_is_told_with_how_to_answer_and_stdout_stays_for_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_asking(AskRecord(order="o1", number=1, command="rm\n" + "x" * 500, asked_at=0, deadline=9, default="deny"))
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines() == [
        f"o1 asks: {('rm ' + 'x' * 500)[:400]}",
        "    treadle fleet answer o1 allow|deny   (deny by itself at its deadline)",
    ]


async def test_an_order_is_found_by_its_beginning_and_ctrl_c_ends_with_the_code_that_shells_know(bus: Bus) -> None:
    await stored(bus, "order1")

    async def names(bus: Bus, name: str) -> tuple[bool, str]:
        return bus.connected, name

    assert await asyncio.to_thread(with_order, "ord", names) == (True, "order1")
    with pytest.raises(NotFound):
        await asyncio.to_thread(with_order, "other", names)

    async def interrupted(bus: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        await asyncio.to_thread(with_bus, interrupted)
    assert ended.value.code == 130

"""The clauses for a one-shot runner: our own keeps each of them, and one fault at a time is found."""

from tests.conform.conftest import kit
from tests.conform.inside import Ran
from treadle.conform.kit import judge


async def test_a_right_program_of_another_keeps_all_and_one_that_reaches_no_model_is_not_judged() -> None:
    assert {found.outcome for found in await judge(kit("oneshot"), Ran(command=("x",)))} == {"kept"}
    untried = {
        found.sentence
        for found in await judge(kit("oneshot"), Ran(command=("x",), requests=False))
        if found.outcome == "untried"
    }
    assert len(untried) == 10 and not any("slash" in sentence or "interrupt" in sentence for sentence in untried)
    seen = await judge(
        kit("oneshot"), Ran(command=("x",), rule={"where": {"type": "result"}, "set": {"subtype": "success"}})
    )
    assert {found.outcome for found in seen} == {"kept"}, "is_error alone says that it failed"


async def test_a_failed_run_may_say_why_on_either_stream_and_that_is_shown() -> None:
    for rule, shown in (({"errors": "", "output": "no key"}, '"no key"'), ({"output": "x"}, '"it failed"')):
        [found] = await judge(kit("oneshot"), Ran(command=("x",), rule=rule), only="a failed run in text says why")
        assert (found.outcome, found.seen) == ("kept", shown)

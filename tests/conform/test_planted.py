"""Small right programs of another vendor, and the same with one of 247 faults planted, before the whole kit.

The faults were written for classes of mistakes, not for clauses: no row here says which clause finds one.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.conform.conftest import kit
from tests.tiers import spread
from treadle.conform.kit import Candidate, Kit, judge

PLANTED = Path(__file__).parent / "planted"
MISSED = {
    "acp": {"a question that was cancelled ends the turn as if all were well"},
    "mcp": {"an answer is of another call"},
}
"""The faults that the kit does not find."""


def faults(protocol: str) -> list[str]:
    sources = (PLANTED / f"{protocol}.py").read_text() + (PLANTED / "rpc.py").read_text()
    return sorted(set(re.findall(r'[^`]F\("([^"]+)"\)', sources)))


def program(protocol: str, fault: str = "", patience: float = 60.0) -> Candidate:
    return Candidate(command=(sys.executable, str(PLANTED / f"{protocol}.py"), fault), patience=patience)


def words(text: str) -> set[str]:
    return {word[:5].lower() for word in re.findall(r"\w{3,}", text)}


async def found(protocol: str, fault: str) -> str:
    """The first clause that finds it, beginning with those in the same words; none of the others is needed then."""
    for clause in sorted(kit(protocol).clauses, key=lambda clause: -len(words(clause.sentence) & words(fault))):
        one_clause = Kit(protocol=protocol, specification="", clauses=[clause])
        [one] = await judge(one_clause, program(protocol, fault, patience=3))
        if one.outcome == "broken" and "came within" in one.seen:  # on a busy machine a right program is late, too
            [one] = await judge(one_clause, program(protocol, fault, patience=15))
        if one.outcome == "broken":
            return clause.sentence
    return ""


@pytest.mark.parametrize("protocol", MISSED)
@pytest.mark.slow
async def test_a_right_program_keeps_every_clause(protocol: str) -> None:
    rulings = await judge(kit(protocol), program(protocol))
    assert {one.sentence: one.seen for one in rulings if one.outcome != "kept"} == {}


@pytest.mark.parametrize("words", ["all blocks of a prompt", "after session/cancel the", "two sessions work at once"])
async def test_an_agent_that_asks_before_every_answer_is_right(words: str) -> None:
    (clause,) = (one for one in kit("acp").clauses if one.sentence.startswith(words))
    [one] = await judge(
        Kit(protocol="acp", specification="", clauses=[clause]), program("acp", "asks before every answer")
    )
    assert one.outcome == "kept", one.seen


ROWS = [(protocol, one) for protocol in MISSED for one in faults(protocol)]


@pytest.mark.parametrize(("protocol", "fault"), spread(ROWS, 0, slow=10))
async def test_a_planted_fault_is_found(protocol: str, fault: str) -> None:
    assert bool(await found(protocol, fault)) == (fault not in MISSED[protocol])

"""Small right programs of another vendor, and the same with one of 200 faults planted, before the whole kit.

The faults were written for classes of mistakes, not for clauses: no row here says which clause finds one.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.conform.conftest import kit
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


async def found(protocol: str, fault: str) -> str:
    """The first clause that finds it; none of the others is needed then."""
    subject = program(protocol, fault, patience=3)
    for clause in kit(protocol).clauses:
        [one] = await judge(Kit(protocol=protocol, specification="", clauses=[clause]), subject)
        if one.outcome == "broken":
            return f"{one.sentence}: {one.seen}"
    return ""


@pytest.mark.parametrize("protocol", MISSED)
@pytest.mark.slow
async def test_a_right_program_keeps_every_clause(protocol: str) -> None:
    rulings = await judge(kit(protocol), program(protocol))
    assert {one.sentence: one.seen for one in rulings if one.outcome != "kept"} == {}


@pytest.mark.parametrize(("protocol", "fault"), [(protocol, one) for protocol in MISSED for one in faults(protocol)])
@pytest.mark.slow
async def test_a_planted_fault_is_found(protocol: str, fault: str) -> None:
    assert bool(await found(protocol, fault)) == (fault not in MISSED[protocol])

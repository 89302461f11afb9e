"""Our own programs keep each clause, so does a right program of another, and one fault at a time is found.

`faults/PROTOCOL.jsonl` has a fault in each line: its name, how a right program is spoiled, and words of the clause that
must notice it. `rulings.jsonl` has what a spoiled program is to be ruled as, and how the reason begins.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conform import inside as programs
from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from tests.tiers import spread
from treadle.conform.kit import Candidate, judge
from treadle.conform.worker import BAD_LINES

HERE = Path(__file__).parent


def rows(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


FAULTS = [(path.stem, *row) for path in sorted((HERE / "faults").glob("*.jsonl")) for row in rows(path)]
SECTIONS = {
    "acp": {
        *("initialize and sessions", "session/prompt", "session/cancel", "JSON-RPC"),
        *("tools and permissions", "several sessions, load, list, resume, close", "Messages"),
    },
    "ledger": {
        *("Lifecycle", "Tools", "JSON-RPC", "Messages", "Tool contract", "Claims"),
        *("Decisions, conflicts and capsules", "Resources, prompts, logging, completion"),
    },
    "mcp": {"Lifecycle", "Tools", "JSON-RPC", "Messages", "Resources, prompts, logging, completion"},
    "oneshot": {"text", "json", "stream-json", "Exit codes"},
    "sidecar": {"hello", "run and its events", "Receipt", "ping and cancel", "Framing and limits"},
    "worker": {
        *("Lifecycle", "send and its events", "Framing and limits", "Tools"),
        *("cancel", "Error envelope"),
    },
}
"""The parts of each specification under which a report lists its clauses."""
CLAUSES = [
    (protocol, sentence)
    for protocol in SECTIONS
    for sentence in clauses(protocol)
    if protocol != "ledger" or sentence not in clauses("mcp")
]


def right(protocol: str, spoil: dict[str, Any] | None = None) -> Candidate:
    """A right program of another, or the same with one thing spoiled."""
    if protocol == "oneshot":
        return programs.Ran(command=("x",), rule=spoil or {})
    if protocol in ("worker", "sidecar"):
        return {"worker": programs.worker, "sidecar": programs.sidecar}[protocol](spoil)
    return programs.inside(getattr(programs, protocol), spoil)


@pytest.mark.parametrize(("protocol", "sentence"), spread(CLAUSES, quick=0, slow=50))
async def test_our_own_keeps(protocol: str, sentence: str, tmp_path: Path) -> None:
    found = await ruling(protocol, sentence, candidate(protocol, tmp_path))
    absent = re.match(
        "the server offers no|all of its tools are in one page|it asked for no (file|terminal)", found.seen
    )
    assert found.outcome == ("untried" if absent else "kept"), found.seen


@pytest.mark.parametrize(("protocol", "sentence"), [row for row in CLAUSES if row[0] not in ("acp", "mcp")])
async def test_a_right_program_of_another_keeps(protocol: str, sentence: str) -> None:
    found = await ruling(protocol, sentence, right(protocol))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(
    ("protocol", "spoil", "words"),
    [(protocol, spoil, words) for protocol, _, spoil, words in FAULTS],
    ids=[f"{protocol}: {fault}" for protocol, fault, _, _ in FAULTS],
)
async def test_a_fault_is_found(protocol: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken(protocol, words, right(protocol, spoil))


def test_each_kind_of_bad_line_has_its_fault() -> None:
    tried = {words for protocol, _, _, words in FAULTS if protocol == "worker"}
    assert {f"{what} is refused" for what in BAD_LINES} <= tried


@pytest.mark.parametrize(("protocol", "spoil", "words", "outcome", "why"), rows(HERE / "rulings.jsonl"))
async def test_what_does_not_apply_is_not_tried_and_a_failure_may_be_right(
    protocol: str, spoil: dict[str, Any], words: str, outcome: str, why: str
) -> None:
    (found,) = await judge(kit(protocol), right(protocol, spoil), only=words)
    assert found.outcome == outcome and re.match(why, found.seen), found


@pytest.mark.parametrize("protocol", SECTIONS)
def test_its_clauses_are_listed_by_the_parts_of_the_specification(protocol: str) -> None:
    assert sections(protocol) == SECTIONS[protocol]

"""Our own programs, and the same with one thing spoiled, as candidates of the kit."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from treadle.conform.kit import Candidate, Clause, Kit, Ruling, judge

BIN = Path(sys.executable).parent
OURS = {
    "worker": ("treadle-worker",),
    "sidecar": ("treadle", "sidecar"),
    "oneshot": ("treadle", "--model", "openai:conform"),
    "acp": ("treadle", "acp", "--model", "openai:conform"),
    "mcp": ("treadle", "mcp"),
    "ledger": ("heimdall-ledger-mcp",),
    "terminal": ("treadle",),
}


def kit(protocol: str) -> Kit:
    found: Kit = importlib.import_module(f"treadle.conform.{protocol}").KIT
    return found


def clauses(protocol: str) -> list[Any]:
    return [clause.sentence for clause in kit(protocol).clauses]


def candidate(protocol: str, home: Path, spoil: dict[str, Any] | None = None, patience: float = 60.0) -> Candidate:
    command = (str(BIN / OURS[protocol][0]), *OURS[protocol][1:])
    if spoil is not None:
        command = (sys.executable, str(Path(__file__).parent / "spoiled.py"), json.dumps(spoil), *command)
    return Candidate(command=command, env={"HOME": str(home)}, patience=patience)


def sections(protocol: str) -> set[str]:
    """The parts of the specification under which a report lists its clauses."""
    return {clause.section for clause in kit(protocol).clauses}


async def ruling(protocol: str, sentence: str, subject: Candidate) -> Ruling:
    only: list[Clause] = [clause for clause in kit(protocol).clauses if clause.sentence == sentence]
    [found] = await judge(Kit(protocol=protocol, specification="", clauses=only), subject)
    return found


async def broken(protocol: str, words: str, subject: Candidate) -> str:
    """What was seen by the clauses with these words, which must all be broken."""
    found = await judge(kit(protocol), subject, only=words)
    assert found and {one.outcome for one in found} == {"broken"}, found
    return found[0].seen

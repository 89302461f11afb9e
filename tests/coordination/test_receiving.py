"""Messages on receipt, and what the audit trail says of them."""

import json
from pathlib import Path

import pytest

from treadle.coordination.planning import Planning
from treadle.coordination.receiving import receive
from treadle.wire.heimdall.connection import ACCEPTED

GOOD = {"type": "question", "from": "coder", "msg_id": "m1", "question": "which port?"}


@pytest.fixture
def planning(tmp_path: Path) -> Planning:
    return Planning(str(tmp_path / ".planning"), project=str(tmp_path))


def trail(planning: Planning) -> list[list[str]]:
    return [line.split("\t")[1:] for line in Path(planning.path("protocol.log")).read_text().splitlines()]


def verdicts(planning: Planning, *lines: bytes) -> list[tuple[int, bool, bool]]:
    return [(attempts, state == ACCEPTED, bool(faults)) for state, attempts, faults in receive(planning, lines)]


def test_receipt_stops_at_the_first_valid_line_and_skips_blank_ones(planning: Planning) -> None:
    good = json.dumps(GOOD).encode() + b"\n"
    unread = iter([b"\n", b"  \n", good, b"never looked at"])
    assert [state for state, _, _ in receive(planning, unread)] == [ACCEPTED]
    assert next(unread) == b"never looked at"
    assert trail(planning) == [["validate", "accept", "attempt=1"]]


def test_one_retry_then_escalation(planning: Planning) -> None:
    good = json.dumps(GOOD).encode()
    assert verdicts(planning, b"x\n", good) == [(1, False, True), (2, True, False)]
    assert verdicts(planning, b"x\n", b"y\n", good) == [(1, False, True), (2, False, True)]
    assert verdicts(planning, b"x\n") == [(1, False, True), (1, False, False)]
    assert verdicts(planning) == [(0, False, False)]
    assert [row[1:] for row in trail(planning)] == [
        ["accept-retry", "attempt=2"],
        ["escalate", "attempts=2"],
        ["escalate", "stream-end attempts=1"],
        ["escalate", "stream-end attempts=0"],
    ]

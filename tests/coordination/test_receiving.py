"""Messages on receipt, and what the audit trail says of them."""

import json

from tests.coordination.conftest import trail
from treadle.coordination.messages import receive
from treadle.coordination.planning import Planning
from treadle.wire.heimdall.connection import ACCEPTED

GOOD = {"type": "question", "from": "coder", "msg_id": "m1", "question": "which port?"}


def verdicts(planning: Planning, *lines: bytes) -> list[tuple[int, bool, bool]]:
    return [(attempts, state == ACCEPTED, bool(faults)) for state, attempts, faults in receive(planning, lines)]


def test_an_invalid_message_gets_one_retry_then_escalates(planning: Planning) -> None:
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

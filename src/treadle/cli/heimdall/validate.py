"""heimdall-validate: check a typed message"""

import sys

from treadle.cli.heimdall import Arguments, err, out
from treadle.coordination import messages
from treadle.coordination.planning import Planning
from treadle.wire.common.jsontext import dumps

VALIDATE_HELP = """heimdall-validate: check a typed message

echo '{"type":"question","from":"coder","msg_id":"m1","question":"which port?"}' | heimdall-validate
    prints {"valid":true,"errors":[]}; exit 0 when valid, 1 when not
heimdall-validate --on-receipt
    reads one message per line: the first valid one is ACCEPTED; one that is not valid gets one retry, the next
    line; the second failure escalates with exit 1
heimdall-validate --schema
    prints the contract as JSON Schema (draft-07)
"""


def validate_command(arguments: list[str]) -> int:
    args = Arguments(arguments, flags="--on-receipt --schema")
    args.exactly(0, "no arguments: the message is read from standard input")
    if "--schema" in args.flags:
        from treadle.wire.heimdall.messages import schema

        out(dumps(schema(), 2))
        return 0
    if "--on-receipt" in args.flags:
        return _on_receipt()
    report = messages.validate(Planning(), sys.stdin.buffer.read())
    out(dumps(report))
    return 0 if report["valid"] else 1


def _on_receipt() -> int:
    from treadle.coordination.receiving import receive
    from treadle.wire.heimdall.connection import ACCEPTED, ESCALATED

    for state, attempts, faults in receive(Planning(), sys.stdin.buffer):
        if state == ACCEPTED:
            out("ACCEPTED" if attempts == 1 else f"ACCEPTED on retry (attempt {attempts})")
            return 0
        if faults:
            err(f"INVALID (attempt {attempts}): {dumps(faults)}")
        if state != ESCALATED:
            err("retry: send the corrected message as the next line")
        elif faults:
            err(f"ESCALATE: not valid after one retry, attempts={attempts}")
        else:
            err(f"ESCALATE: the input ended before a valid message, attempts={attempts}")
    return 1

"""`heimdall-validate`, `heimdall-gate` and `treadle coord message`: typed messages."""

import os
import sys

from treadle.cli.heimdall.table import Arguments, UsageError, err, out, small
from treadle.coordination import messages
from treadle.coordination.bindings import acting
from treadle.coordination.messages import EVERYBODY, Inbox, to_message
from treadle.coordination.planning import Planning, one_line
from treadle.errors import ConfigError, NotFound
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads

# heimdall-validate: check a typed message

VALIDATE_HELP = """heimdall-validate: check a typed message

echo '{"type":"question","from":"coder","msg_id":"m1","question":"which port?"}' | heimdall-validate
    prints {"valid":true,"errors":[]}; exit 0 when valid, 1 when not
heimdall-validate --on-receipt
    reads one message per line: the first valid one is ACCEPTED; one that is not valid gets one retry, the next
    line; the second failure escalates with exit 1
heimdall-validate --schema
    prints the contract as JSON Schema (draft-07)
"""


@small(VALIDATE_HELP, flags="--on-receipt --schema")
def validate_command(args: Arguments) -> int:
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
    from treadle.coordination.messages import receive
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


# treadle coord message: typed messages between agents and people, on the command line

MESSAGE_HELP = """treadle coord message: typed messages between agents and people, on the command line

treadle coord message post [--to HAID|ROLE] < MESSAGE
    sends one message (JSON, one of the protocol's six types) to that identity or role, or to all without --to
treadle coord message ask QUESTION [--to HAID|ROLE] [--reply-to MSG_ID]
    sends a question and prints its msg_id
treadle coord message read [--all] [--ack] [--json]
    lists your messages; --all: also acknowledged ones; --ack: acknowledge them
treadle coord message thread MSG_ID [--json]     a message and its replies
treadle coord message search TEXT [--json]       search all messages for a text
"""


@small(MESSAGE_HELP, "--to --reply-to", "--all --ack --json", commands="post ask read thread search")
def message_command(args: Arguments) -> int:
    command, *rest = args.rest or [""]
    planning = Planning()
    inbox, to = Inbox(planning), args.get("--to") or EVERYBODY
    if command == "post" and not rest:
        try:
            message = loads(sys.stdin.read())
        except ValueError as error:
            raise ConfigError(f"the message on standard input is not JSON: {error}") from None
        inbox.post(acting(planning, enter=True), message, to)
        out(f"posted {message['msg_id']} to {to}")
    elif command == "ask" and len(rest) == 1:
        haid = acting(planning, enter=True)
        message = {"type": "question", "from": haid, "msg_id": f"q-{os.urandom(4).hex()}", "question": rest[0]}
        inbox.post(haid, message | ({"reply_to": answers} if (answers := args.get("--reply-to")) else {}), to)
        out(message["msg_id"])
    elif command == "read" and not rest:
        haid = acting(planning)
        found = inbox.read(haid, acknowledged="--all" in args.flags)
        _show(found, args)
        if "--ack" in args.flags:
            inbox.acknowledge(haid, [entry["message"]["msg_id"] for entry in found])
    elif command == "thread" and len(rest) == 1:
        if not (found := inbox.thread(rest[0])):
            raise NotFound(f"there is no message {rest[0]}")
        _show(found, args)
    elif command == "search" and len(rest) == 1:
        _show(inbox.search(rest[0]), args)
    else:
        raise UsageError("expected post, ask QUESTION, read, thread MSG_ID or search TEXT")
    return 0


def _show(found: list[dict[str, Any]], args: Arguments) -> None:
    if "--json" in args.flags:
        out(dumps(found, 2))
        return
    if not found:
        out("(no messages)")
    for entry in found:
        message = entry["message"]
        rest = {name: value for name, value in message.items() if name not in ("type", "from", "msg_id", "ts")}
        out(one_line(f"{entry['ts']}  {message['msg_id']}  {entry['by']} -> {entry['to']}  {message['type']}"))
        out(f"  {one_line(dumps(rest))}")


# heimdall-gate: send a gate's report as a message

GATE_HELP = """heimdall-gate: send a gate's report as a message

heimdall-gate to-message --report PATH --from ROLE --msg-id ID [--wave W]
    prints a gate_report message with the report's gate_id, status and wave, without its body
    exit 1: no usable report (neither pass nor fail)
"""


@small(GATE_HELP, "--report --from --msg-id --wave", commands="to-message")
def gate_command(args: Arguments) -> int:
    if args.rest != ["to-message"]:
        raise UsageError("expected to-message")
    report, sender, msg_id = args.need("--report"), args.need("--from"), args.need("--msg-id")
    try:
        out(dumps(to_message(Planning(), report, sender, msg_id, args.get("--wave"))))
    except ConfigError as error:
        err(f"heimdall-gate: {error}")
        return 1
    return 0

"""treadle coord message: typed messages between agents and people, on the command line"""

import os
import sys

from treadle.cli.heimdall import Arguments, UsageError, out
from treadle.coordination.acting import acting
from treadle.coordination.messages import EVERYBODY, Inbox
from treadle.coordination.planning import Planning, one_line
from treadle.errors import ConfigError, NotFound
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads

MESSAGE_HELP = """treadle coord message: typed messages between agents and people, on the command line

treadle coord message post [--to HAID|ROLE] < MESSAGE
    keeps one message (JSON, of the protocol's six types) for that identity or role; for everybody without --to
treadle coord message ask QUESTION [--to HAID|ROLE] [--reply-to MSG_ID]
    the same for a question, made from its text; prints its msg_id
treadle coord message read [--all] [--ack] [--json]
    what was sent to you; --all: also what you have acknowledged; --ack: acknowledge what is shown
treadle coord message thread MSG_ID [--json]     a message, and those that answer it
treadle coord message search TEXT [--json]       the messages that contain it, no matter who they are for
"""


def message_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--to --reply-to", "--all --ack --json")
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

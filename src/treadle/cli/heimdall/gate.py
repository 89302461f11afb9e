"""heimdall-gate: a gate's report as a message that points to it"""

from treadle.cli.heimdall import Arguments, UsageError, err, out
from treadle.coordination.gate import to_message
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError
from treadle.wire.common.jsontext import dumps

GATE_HELP = """heimdall-gate: a gate's report as a message that points to it

heimdall-gate to-message --report PATH --from ROLE --msg-id ID [--wave W]
    prints a gate_report message with the report's gate_id, status and wave, and never its body
    exit 1: there is no usable report, which is neither a pass nor a fail
"""


def gate_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--report --from --msg-id --wave")
    if args.rest != ["to-message"]:
        raise UsageError("expected to-message")
    report, sender, msg_id = args.need("--report"), args.need("--from"), args.need("--msg-id")
    try:
        out(dumps(to_message(Planning(), report, sender, msg_id, args.get("--wave"))))
    except ConfigError as error:
        err(f"heimdall-gate: {error}")
        return 1
    return 0

"""`treadle coord hook`: what an outside agent's hooks run before and after a tool call."""

import signal
import sys

from treadle.cli.heimdall.table import Arguments, UsageError, err, out, small
from treadle.coordination.pretool import PROGRAMS, HookAnswer, OutsideCall, answer, judge
from treadle.errors import LocalError, TreadleError
from treadle.wire.common.jsontext import dumps, loads

SECONDS = 8
"""Less than `treadle coord setup` allows the hook: a program lets the call go on when its hook is too slow."""
CAP = 64 * 1024 * 1024


HOOK_HELP = """\
treadle coord hook: what an outside agent's hooks run before and after a call; `treadle coord setup` writes it there

treadle coord hook claude|codex|gemini|qwen|copilot|opencode|cursor
    reads the call on standard input, and prints why it is refused; nothing when it may go on
    after the call: puts back what it changed of others' files, and prints what that was
"""


@small(HOOK_HELP, whole=True)
def hook_command(arguments: list[str]) -> int:
    return run_hook(arguments, sys.stdin.buffer.read(CAP))


def run_hook(
    arguments: list[str], given: bytes, *, top: str = "", staged: list[str] | None = None, failed: str = ""
) -> int:
    """`top` and `staged`: for a call in a sandbox, its worktree and what is about to be committed there; `failed`: why
    it cannot be judged."""
    args = Arguments(arguments)
    if len(args.rest) != 1 or args.rest[0] not in PROGRAMS:
        raise UsageError(f"expected one of {', '.join(PROGRAMS)}")
    program = args.rest[0]
    try:
        call_data = loads(given)
    except ValueError as error:
        err(f"treadle coord hook: what came in is not JSON: {error}")
        return 0
    call = OutsideCall(program, call_data if isinstance(call_data, dict) else {})
    call.staged, call.project = staged, top or call.cwd
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        if failed:
            raise LocalError(failed)
        found = judge(call)
    except (TreadleError, _Late) as error:
        acts = bool(call.writes() or call.does.command)
        why = f"the claims of others could not be checked: {error}" if acts else ""
        found = HookAnswer(note=why) if call.is_over else HookAnswer(why)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    call_data = answer(program, call.event, found)
    if call_data is not None:
        out(dumps(call_data))
    return 0


class _Late(Exception):
    def __str__(self) -> str:
        return f"it took longer than {SECONDS} s; try again"


def _late(number: int, frame: object) -> None:
    raise _Late

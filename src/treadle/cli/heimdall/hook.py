"""`treadle coord hook`: what an outside agent's hooks run before and after a tool call."""

import signal
import sys

from treadle.cli.heimdall.table import Arguments, UsageError, err, out, small
from treadle.coordination.calls import PROGRAMS, HookAnswer, OutsideCall, answer, to_judge
from treadle.coordination.planning import Planning
from treadle.errors import LocalError, TreadleError
from treadle.wire.common.jsontext import dumps, loads

SECONDS = 8
"""Less than `treadle coord setup` allows the hook: a program lets the call go on when its hook is too slow."""
CAP = 64 * 1024 * 1024


HOOK_HELP = """\
treadle coord hook: the program behind an external agent's hooks, installed by `treadle coord setup`

treadle coord hook claude|codex|gemini|qwen|copilot|opencode|cursor
    reads the call from standard input and prints the reason if it is refused
    after the call: restores claimed files that it changed, and lists them
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
    program, call = args.rest[0], None
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        call = _call(program, given)
        call.staged, call.project = staged, top or call.cwd
        if failed:
            raise LocalError(failed)
        found = _judged(call)
    except Exception as error:  # whatever it is: a program lets the call go on when its hook fails
        found = _unchecked(call, error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    output = answer(program, call.event if call else "PreToolUse", found)
    if output is not None:
        out(dumps(output))
    return 0


def _call(program: str, given: bytes) -> OutsideCall:
    try:
        found = loads(given)
    except (ValueError, RecursionError) as error:
        raise LocalError(f"the input is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise LocalError("the input is not the JSON of a tool call")
    return OutsideCall(program, found)


def _judged(call: OutsideCall) -> HookAnswer:
    here, tops = to_judge(call)
    if not here and not tops:
        return HookAnswer()
    from treadle.coordination.guard import judge  # costs more than what most calls need

    return judge(call, here, tops)


def _unchecked(call: OutsideCall | None, error: Exception) -> HookAnswer:
    """The answer where a call could not be judged: refused if it may change something that others hold."""
    known = isinstance(error, TreadleError | _Late)
    why = f"the claims of others could not be checked: {error if known else f'{type(error).__name__}: {error}'}"
    if call is None:
        if Planning().claimed():
            return HookAnswer(why)
        err(f"treadle coord hook: {error}")
        return HookAnswer()
    acts = call.writes() or call.does.command or call.does.mentioned(call.cwd)
    return HookAnswer(note=why) if acts and call.is_over else HookAnswer(why if acts else "")


class _Late(Exception):
    def __str__(self) -> str:
        return f"it took longer than {SECONDS} s; try again"


def _late(number: int, frame: object) -> None:
    raise _Late

"""Why an attempt ended as it did, in one plain sentence with what to do. Every end that is not a success has one."""

from treadle.errors import Busy, LocalError, StorageError, TreadleError
from treadle.events import ErrorInfo, TurnEnded
from treadle.fleet.engine.bus import Unreachable
from treadle.wire.fleet.states import Fault

OURS = " (our fault, not the agent's)"

ADVICE = {
    "auth_failed": "give this node a valid key, then `treadle fleet retry`",
    "rate_limited": "wait, or give it another account with --credential, then `treadle fleet retry`",
    "context_overflow": "split the task, or choose a model with a larger window",
    "max_iterations": "raise --max-turns, then `treadle fleet retry`",
    "budget_exceeded": "raise its limit, then `treadle fleet retry`",
    "loop_detected": "say what it should do instead: `treadle fleet send-back`",
    "empty_reply": "`treadle fleet retry`, or choose another model",
}
"""What to do about an error of the agent's, by its code."""
ENDED_AS = {
    "interrupted": "its turn was interrupted",
    "limited": "it reached a limit of its turn",
    "failed": "the agent said that it failed, and not why",
    "completed": "the agent ended its turn without the result that the order asks for",
}


VERIFY = "verify_failed"
AGENT = {"interrupted": "interrupted", "limited": "limited", "failed": "agent_failed", "completed": "no_result"}
"""The codes of the agent's own ends."""


def not_verified(command: str) -> str:
    advice = "`treadle fleet show` has what it printed; then `treadle fleet send-back`, or `retry`"
    return f"its work was not verified: {command} failed: {advice}"


def of(stopped: TreadleError | None, problem: TreadleError | None, ended: TurnEnded | None, failure: str) -> str:
    """The reason for an end that is not a success. `stopped`: why we stopped it; `problem`: what the host met; `ended`:
    the agent's last turn; `failure`: a check that failed."""
    if stopped is not None:
        return str(stopped)
    if problem is not None and not (ended is not None and ended.error is not None):
        return _advised(str(problem), problem.code) + (OURS if _is_ours(problem) else "")
    if ended is not None and ended.error is not None:
        return of_error(ended.error)
    if failure:
        return failure
    if ended is None:
        return "the agent ended without saying anything"
    words = ENDED_AS[ended.outcome]
    return f"{words} ({ended.stop_reason})" if ended.stop_reason else words


def code_of(stopped: TreadleError | None, problem: TreadleError | None, ended: TurnEnded | None, failure: str) -> str:
    """The reason as a code, from the same as its words, and found in the same order."""
    if stopped is not None:
        return stopped.code
    if ended is not None and ended.error is not None:
        return ended.error.code
    if problem is not None:
        return problem.code
    if failure:
        return VERIFY
    return "silent" if ended is None else AGENT[ended.outcome]


def fault_of(
    stopped: TreadleError | None, problem: TreadleError | None, ended: TurnEnded | None, failure: str
) -> Fault:
    """Whose fault that end is, from the same as its reason, and found in the same order."""
    if stopped is not None:
        return ""
    if ended is not None and ended.error is not None:
        return "provider" if ended.error.retryable else ""
    if problem is not None:
        return "ours" if _is_ours(problem) else "provider" if problem.retryable else ""
    return "verify" if failure else ""


def _is_ours(problem: TreadleError) -> bool:
    """Whether it is a problem of this machine or of ours, and not of the agent, its model or the order. A plain
    LocalError is what the host makes of an error that it did not expect."""
    return isinstance(problem, StorageError | Unreachable | Busy) or type(problem) is LocalError


def of_error(error: ErrorInfo) -> str:
    return _advised(error.message, error.code)


def _advised(text: str, code: str) -> str:
    advice = ADVICE.get(code)
    return f"{text.rstrip('.')}: {advice}" if advice and advice not in text else text

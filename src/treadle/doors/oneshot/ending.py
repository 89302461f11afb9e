"""How a run ended, as an exit code and as its final record."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from treadle.errors import TreadleError
from treadle.events import ErrorInfo, ToolDenied, TurnEnded
from treadle.sessions.session import error_info
from treadle.sessions.totals import Totals, TurnSummary, TurnTotals
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.arguments import USED
from treadle.wire.oneshot.records import RunResult

INTERRUPTED, TIMED_OUT, LIMITED, INCOMPLETE = 130, 124, 3, 4
"""Exit codes with `strict`. Without it, interrupted is 0 and everything else here except INCOMPLETE is 1."""


Named: TypeAlias = tuple[wire.Subtype, str | msgspec.UnsetType | None, bool]
"""The subtype, the result where it is not the answer, and whether it failed."""


class RunEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How the run ended: by the first of a turn's end, a command's result or an exception."""

    text: str = ""
    error: ErrorInfo | None = None
    turn: bool = False
    """Whether a turn of the model decided it."""
    interrupted: bool = False
    in_tools: bool = False
    """Whether a tool was running when it was interrupted."""


def failure(ended: TurnEnded) -> ErrorInfo | None:
    """The error, if any. An interruption is not an error: its partial text is the result."""
    if ended.outcome in ("completed", "interrupted"):
        return None
    return ended.error or ErrorInfo(code="error", message=f"the turn ended as {ended.outcome}")


def refusals(denials: Iterable[ToolDenied]) -> str:
    """Lines that tell a reader of plain text what was not allowed; there is no other way to learn it."""
    reasons = dict.fromkeys(denied.reason for denied in denials)
    return "".join(f"treadle: not allowed: {reason}\n" for reason in reasons)


def exit_code(ending: RunEnding, summary: TurnSummary, *, strict: bool) -> int:
    if not strict:
        return 1 if ending.error is not None else 0
    if ending.error is not None:
        return {"timeout": TIMED_OUT}.get(ending.error.code, LIMITED if summary.outcome == "limited" else 1)
    if ending.interrupted or summary.outcome == "interrupted":
        return INTERRUPTED
    return INCOMPLETE if summary.denials or summary.stop_reason in ("length", "refusal") else 0


def result_of(
    ending: RunEnding,
    summary: TurnSummary,
    code: int,
    structured: Any,
    *,
    session_id: str,
    milliseconds: int,
    window: int | None = None,
    hosted: bool = False,
) -> RunResult:
    """The final record of a run; `hosted`: in the words of Claude Code, which its SDKs expect."""
    error = ending.error
    usual: Named = ("success" if error is None else "error", None, code != 0)
    subtype, text, failed = _as_claude(ending) if hosted else usual
    return RunResult(
        result=("" if error is not None else ending.text) if text is None else text,
        session_id=session_id,
        subtype=subtype,
        is_error=failed,
        duration_ms=milliseconds,
        duration_api_ms=summary.model_ms,
        num_turns=summary.iterations,
        total_cost_usd=summary.usage.cost_usd,
        stop_reason=wire.stop_reason(summary.stop_reason),
        terminal_reason=_terminal_reason(ending, summary),
        usage=_usage(summary.own),
        model_usage=models_used(summary.by_model, window),
        permission_denials=[
            {"tool_name": USED.get(denied.name, denied.name), "tool_use_id": denied.call, "tool_input": denied.args}
            for denied in summary.denials
        ],
        errors=[error.message] if error is not None else ["interrupted"] if failed else msgspec.UNSET,
        error_code=error.code if error is not None else msgspec.UNSET,
        structured_output=structured,
    )


def not_begun(error: Exception) -> RunResult:
    """The final record of a run that could not begin, such as one without a model."""
    info = error_info(error) if not isinstance(error, OSError) else ErrorInfo(code="storage_error", message=str(error))
    summary = TurnTotals().summary()
    code = error.ends_with if isinstance(error, TreadleError) else 1
    return result_of(RunEnding(error=info, turn=False), summary, code, msgspec.UNSET, session_id="", milliseconds=0)


def _as_claude(ending: RunEnding) -> Named:
    """(subtype, the result where it is not the answer, whether it failed) of a run under an SDK of Claude Code."""
    error = ending.error
    if error is None:
        return ("error_during_execution", msgspec.UNSET, True) if ending.interrupted else ("success", None, False)
    if subtype := _LIMITS.get(error.code):
        return subtype, msgspec.UNSET, True
    if error.code in wire.PROVIDER_CODES:
        return "success", error.message, True
    return "error_during_execution", msgspec.UNSET, True


_LIMITS: dict[str, wire.Subtype] = {"max_iterations": "error_max_turns", "budget_exceeded": "error_max_budget_usd"}


def _terminal_reason(ending: RunEnding, summary: TurnSummary) -> str:
    if ending.error is not None:
        return _REASONS.get(ending.error.code, "error")
    if ending.interrupted or summary.outcome == "interrupted":
        return "aborted_tools" if ending.in_tools else "aborted_streaming"
    return "completed"


_REASONS = {"max_iterations": "max_turns", "budget_exceeded": "budget_exhausted"} | dict.fromkeys(
    wire.PROVIDER_CODES, "api_error"
)


def _usage(totals: Totals) -> wire.Record:
    """The four token counts; marked where a service did not count and we had to guess."""
    counted = wire.usage(
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cache_read=totals.cache_read_tokens,
        cache_write=totals.cache_write_tokens,
    )
    return {**counted, "estimated": True} if totals.estimated else counted


def models_used(by_model: dict[str, Totals], window: int | None) -> dict[str, wire.Record]:
    return {model: _model_usage(totals, window) for model, totals in by_model.items()}


def _model_usage(totals: Totals, window: int | None) -> wire.Record:
    return {
        "inputTokens": totals.input_tokens,
        "outputTokens": totals.output_tokens,
        "cacheReadInputTokens": totals.cache_read_tokens,
        "cacheCreationInputTokens": totals.cache_write_tokens,
        "costUSD": totals.cost_usd,
        "contextWindow": window,
    }

"""Tokens and cost as agents report them, each at a different moment and over a different span.

`span` is what the counts in the answer to a prompt cover, as measured: the `turn`, its last `step`, or the whole
`session` so far, which is what the schema says. `none` is for agents that give no counts there.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from treadle.events import Usage
from treadle.wire.common.numbers import amount

Span: TypeAlias = Literal["turn", "step", "session", "none"]
_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def read_counts(counts: Any, model: str = "") -> Usage | None:
    """Counts as a Usage whose buckets do not overlap; None when there are none, or only zeros.

    Some agents count cached tokens as input and others beside it: the total says which.
    """
    if not isinstance(counts, dict):
        return None
    given = _number(counts, "inputTokens", "input_tokens")
    output = _number(counts, "outputTokens", "output_tokens")
    read = _number(counts, "cachedReadTokens", "cachedInputTokens")
    written = _number(counts, "cachedWriteTokens", "cacheWriteInputTokens")
    if read + written and _number(counts, "totalTokens") == given + output:
        given = max(given - read - written, 0)
    if not given + output + read + written:
        return None
    return Usage(
        model=model,
        input_tokens=given,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_number(counts, "thoughtTokens", "reasoningOutputTokens"),
    )


class UsageMeter:
    """One session's counts. Nothing is made up: what an agent does not tell is not in any event."""

    def __init__(self, span: Span = "session") -> None:
        self.span = span
        self.model = ""
        self._before: Usage | None = None
        self._cost: float | None = None
        self._billed: float | None = None
        self._earlier_cost_unknown = False
        """The cost of earlier processes is still unknown, so the next total does not tell what this turn cost."""
        self._stepwise = False
        self.context: tuple[int | None, int | None] = None, None
        """How many tokens the conversation takes, and how many it may; None when it does not say."""

    def resumed(self) -> None:
        """The session was resumed: what an earlier process spent is not reported again."""
        self._billed, self._earlier_cost_unknown = self._cost, self._cost is None

    def updated(self, update: dict[str, Any]) -> None:
        """A usage_update: how full the context is, and the money spent over the whole session."""
        self.cost(update.get("cost"))
        used, size = _number(update, "used"), _number(update, "size")
        if used and size:
            self.context = used, size

    def cost(self, cost: Any) -> None:
        """`cost` of a usage_update: money spent over the whole session."""
        if isinstance(cost, dict) and cost.get("currency") == "USD":
            spent = amount(cost.get("amount"))
            self._cost = self._cost if spent is None else spent

    def step(self, counts: Any, duration_ms: Any = 0) -> Usage | None:
        """The usage of one model call, reported during the turn."""
        usage = read_counts(counts, self.model)
        if usage is not None:
            self._stepwise = True
            if type(duration_ms) is int:
                usage = _with(usage, duration_ms=duration_ms)
        return usage

    def turn(self, result: Any) -> list[Usage]:
        """The usage that the answer to a prompt adds. The turn's cost is on the last record."""
        answer = result if isinstance(result, dict) else {}
        found: list[Usage] = []
        if not self._stepwise and self.span != "none":
            usage = self._answer_usage(answer)
            found = [usage] if usage is not None else _quota(answer)
        cost = self._spent()
        if found and cost is not None:
            found[-1] = _with(found[-1], cost_usd=cost)
        return found

    def _answer_usage(self, answer: dict[str, Any]) -> Usage | None:
        usage = read_counts(answer.get("usage"), self.model)
        if usage is None or self.span != "session":
            return usage
        before, self._before = self._before, usage
        if before is None or any(getattr(usage, field) < getattr(before, field) for field in _FIELDS):
            return usage  # the first answer, or an agent that starts from zero each time
        rest = {field: getattr(usage, field) - getattr(before, field) for field in _FIELDS}
        return _with(usage, **rest) if any(rest.values()) else None

    def _spent(self) -> float | None:
        """The money spent since this was last asked; None when it is unknown."""
        if self._cost is None or self._cost < (self._billed or 0.0):
            return None
        spent = self._cost - (self._billed or 0.0)
        self._billed = self._cost
        if self._earlier_cost_unknown:
            self._earlier_cost_unknown = False
            return None
        return spent or None  # agents report 0 for a model whose price they do not know


def _quota(answer: dict[str, Any]) -> list[Usage]:
    """Counts by model, as Gemini gives them."""
    meta = answer.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    models = quota.get("model_usage") if isinstance(quota, dict) else None
    found = [
        read_counts(one.get("token_count"), str(one.get("model") or ""))
        for one in (models if isinstance(models, list) else [])
        if isinstance(one, dict)
    ]
    return [usage for usage in found if usage is not None]


def _with(usage: Usage, **fields: Any) -> Usage:
    return msgspec.structs.replace(usage, **fields)


def _number(counts: dict[str, Any], *names: str) -> int:
    for name in names:
        value = counts.get(name)
        if type(value) is int and value >= 0:
            return value
    return 0

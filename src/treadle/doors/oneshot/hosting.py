"""What an SDK of Claude Code is told beside the conversation: which prompt a line answers, times, running totals."""

import time
from collections.abc import Callable, Iterable

import msgspec

from treadle.events import AnyEvent, ErrorInfo, Message, TextDelta, ThinkingDelta, Usage
from treadle.sessions.totals import Totals, TurnSummary
from treadle.wire.oneshot.records import Record, RunResult

STAMPED = ("assistant", "stream_event")
"""The first line of each of these types names the prompt that it answers."""


class Hosting:
    def __init__(self, earlier: Iterable[Usage] = ()) -> None:
        """`earlier`: what the session had used before it was resumed; costs in results go on from there."""
        self.spent = Totals()
        self.model_ms = self.total_ms = 0
        """How long all prompts so far, and the model in them, took."""
        self._by_model: dict[str, Totals] = {}
        for usage in earlier:
            self.spent = self.spent.plus(usage)
            self._by_model[usage.model] = self._by_model.get(usage.model, Totals()).plus(usage)
        self.waiting: Callable[[], int] = lambda: 0
        """How many prompts have come and are not begun."""
        self.before_result: Callable[[], list[Record]] = list
        """What is written before each result."""
        self._results = 0
        self.begin()

    def begin(self, prompt: str = "") -> None:
        """A prompt begins; empty: its host gave it no uuid."""
        self._prompt = prompt
        self._begun = time.monotonic()
        self._first: int | None = None
        self._unstamped = set(STAMPED)

    def hear(self, event: AnyEvent) -> None:
        if self._first is None and event.parent is None and isinstance(event, TextDelta | ThinkingDelta | Message):
            self._first = round((time.monotonic() - self._begun) * 1000)

    def stamp(self, records: list[Record]) -> list[Record]:
        """Name the prompt in the first line of each type, and in a stream's first the time that it took."""
        for record in records:
            kind = record["type"]
            if kind not in self._unstamped or record.get("parent_tool_use_id") is not None:
                continue
            self._unstamped.remove(kind)
            if self._prompt:
                record |= {"user_message_uuid": self._prompt, "user_message_uuids": [self._prompt]}
            if kind == "stream_event" and self._first is not None:
                record["ttft_ms"] = self._first
        return records

    def complete(self, result: RunResult, summary: TurnSummary, command: str | None, error: ErrorInfo | None) -> None:
        """Add to the final record of a prompt what only a host reads; costs are those of the session so far."""
        self.spent = self.spent.together(summary.usage)
        self.model_ms += result.duration_api_ms
        self.total_ms += result.duration_ms
        for model, totals in summary.by_model.items():
            self._by_model[model] = self._by_model.get(model, Totals()).together(totals)
        result.total_cost_usd, result.duration_api_ms = self.spent.cost_usd, self.model_ms
        if self._prompt:
            result.user_message_uuid, result.user_message_uuids = self._prompt, [self._prompt]
        if self._first is not None:
            result.ttft_ms = result.ttft_stream_ms = self._first
        result.local_command = command if command is not None else msgspec.UNSET
        details = error.details if error is not None and isinstance(error.details, dict) else {}
        result.api_error_status = details.get("status")
        result.queued_turn_count = self.waiting()
        result.result_index, self._results = self._results, self._results + 1
        result.fast_mode_state = "off"

    @property
    def by_model(self) -> dict[str, Totals]:
        return {model: totals for model, totals in self._by_model.items() if model}

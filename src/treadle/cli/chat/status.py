"""The line under the input: model, mode, how full the context is, tokens, cost, branch."""

from treadle.agent.providers.known import window
from treadle.events import AnyEvent, ModelRouted, Usage
from treadle.session import Session
from treadle.sessions.totals import Totals


class Status:
    def __init__(self, session: Session, branch: str = "") -> None:
        self._session = session
        self.branch = branch
        self._totals = Totals()
        self._routed = ""
        self._context = 0

    def feed(self, event: AnyEvent) -> None:
        if isinstance(event, Usage):
            self._totals = self._totals.plus(event)
            if event.parent is None:
                self._context = event.prompt_tokens + event.output_tokens
        elif isinstance(event, ModelRouted):
            self._routed = event.model

    def words(self) -> list[str]:
        info = self._session.info
        model = self._routed or ", ".join(info.models) or info.name
        parts = [model, info.mode or "no mode", self._filled(model)]
        if self._totals.calls:
            cost = "?" if self._totals.cost_usd is None else f"{self._totals.cost_usd:.2f}"
            parts += [f"{short(self._totals.total_tokens)} tokens", f"${cost}"]
        return [part for part in [*parts, self.branch] if part]

    def _filled(self, model: str) -> str:
        if not self._context:
            return ""
        size = window(model)
        return f"{self._context * 100 // size} % of context" if size else f"{short(self._context)} in context"


def short(number: int) -> str:
    return str(number) if number < 1000 else f"{number / 1000:.1f}k"

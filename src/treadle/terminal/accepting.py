"""The verdict that counts, and the one that may replace it once it has been seen long enough."""

from __future__ import annotations

from treadle.light import TYPE_CHECKING
from treadle.terminal import states

if TYPE_CHECKING:
    from treadle.terminal.judge import Verdict


class Accepted:
    def __init__(self, now: int) -> None:
        self.verdict: Verdict | None = None
        self.since = now
        self.candidate: Verdict | None = None
        self.candidate_since = now

    @property
    def state(self) -> str:
        return self.verdict.state if self.verdict else states.STARTING

    def offer(self, verdict: Verdict, now: int) -> bool:
        """A look gave this verdict. Returns whether it names another state, which must now be held for a while."""
        if self.verdict is None or verdict.state == self.verdict.state:
            self.verdict, self.candidate = verdict, None
            return False
        if self.candidate is None or self.candidate.state != verdict.state:
            self.candidate_since = now
        self.candidate = verdict
        return True

    def accept(self) -> None:
        """The candidate has been seen long enough."""
        assert self.candidate
        states.move(self.state, self.candidate.state)
        self.verdict, self.since, self.candidate = self.candidate, self.candidate_since, None

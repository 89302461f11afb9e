"""How long a sidecar may take for what, and when it counts as stalled."""

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds."""

    handshake: float = 10.0
    ping_every: float = 30.0
    pong_within: float = 10.0
    missed_pongs: int = 3
    quiet: float = 600.0
    """How long a sidecar that never answered a ping may be silent and idle."""
    strict_pong: bool = False
    """Every ping must be answered within `pong_within`, even by a sidecar that never answered one."""
    cancel_grace: float = 5.0
    exit_grace: float = 0.5
    """How long a sidecar that is done may take to exit by itself."""


class Liveness:
    """Judges from lines, answers and CPU time whether a sidecar still lives. Pure: the time is passed in."""

    def __init__(self, timing: Timing, now: float) -> None:
        self.timing = timing
        self.active = now
        """When it last said anything or used CPU."""
        self.answers = False
        self.open: dict[int, float] = {}
        """Unanswered pings, and when they were sent."""
        self._heard = now
        self._cpu = 0.0

    def heard(self, now: float) -> None:
        self.active = self._heard = now

    def pinged(self, seq: int, now: float) -> None:
        self.open[seq] = now
        if len(self.open) > 1000:  # it never answers, and need not
            del self.open[next(iter(self.open))]

    def ponged(self, seq: int) -> bool:
        """Whether that ping had been sent."""
        known = seq in self.open
        self.answers = self.answers or known
        for other in [other for other in self.open if other <= seq]:
            del self.open[other]
        return known

    def used_cpu(self, seconds: float, now: float) -> None:
        if seconds != self._cpu:
            self._cpu, self.active = seconds, now

    def stalled(self, now: float) -> str | None:
        """Why it counts as stalled, or None."""
        late = [sent for sent in self.open.values() if now - sent > self.timing.pong_within]
        # A sidecar that talks is alive, whether or not it answers pings.
        missed = sum(1 for sent in late if sent >= self._heard)
        if self.timing.strict_pong and late:
            return f"a ping was not answered within {self.timing.pong_within:g} s"
        if self.answers and missed >= self.timing.missed_pongs:
            return f"it used to answer pings, and {missed} in a row are unanswered"
        if not self.answers and now - self.active > self.timing.quiet:
            return f"no line and no CPU time was seen for {self.timing.quiet:g} s"
        return None

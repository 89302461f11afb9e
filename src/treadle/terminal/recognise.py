"""Which agent a terminal shows, and how that is known."""

from __future__ import annotations

from treadle.light import TYPE_CHECKING
from treadle.terminal import detectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.terminal.detectors.table import Detector


class KnownAgent:
    def __init__(self, command: Sequence[str]) -> None:
        self.detector: Detector | None = None
        self.by = ""
        """`command`, `sight`, or nothing."""
        self.box_seen = False
        self.settled = False
        """Whether it has been idle: its start, with the dialogs that belong to it, is over."""
        if table := detectors.readable(detectors.by_command(command)):
            self.detector, self.by = table, "command"

    @property
    def name(self) -> str | None:
        return self.detector.name if self.detector else None

    def recognise(self, app: str, title: str, lines: list[str]) -> None:
        """If it is not known yet: by the name under which it reports, else by its title and its screen."""
        if self.detector is None and (name := detectors.by_app(app) or detectors.by_sight(title, "\n".join(lines))):
            self.detector, self.by = detectors.readable(name), "sight"

    def forget(self) -> None:
        """It has returned to the shell in which it was started."""
        if self.by == "sight":
            self.detector, self.by, self.box_seen, self.settled = None, "", False, False

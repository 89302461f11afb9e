"""What other orders hold in the same repository, on any machine: this order may not write there.

The scheduler sends it with each answer to a beat. A tool that would write there is refused; what a command wrote there
is found when it has ended. The conflict radar is the other half: both orders are told of files that both change.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from treadle.coordination.surfaces import Surface
from treadle.errors import Denied
from treadle.session import Access, Decision, Guard, Guards

LISTED = 5


class Claimed:
    def __init__(self, top: str, root: str, dirty: Callable[[], set[str]]) -> None:
        self.top = top
        self.root = root
        self._differing = dirty
        self.others: dict[str, list[Surface]] = {}
        """Order -> what it holds."""
        self._warned: set[tuple[str, tuple[str, ...]]] = set()

    def learn(self, others: Mapping[str, Iterable[str]]) -> None:
        self.others = {order: [Surface(text) for text in surfaces] for order, surfaces in others.items()}

    def holders(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Which of these paths, relative to the top, another order holds."""
        found: dict[str, list[str]] = {}
        for path in paths:
            mine = Surface.of(path, self.top)
            for order, surfaces in self.others.items():
                if any(mine.overlaps(theirs) for theirs in surfaces):
                    found.setdefault(order, []).append(path)
        return found

    def guards(self, given: Guards) -> Guards:
        """The guards of the session, joined with those of the claims."""
        return replace(given, judge=self._judging(given.judge), watching=given.watching or self._watch)

    def _judging(self, first: Guard | None) -> Guard:
        def judge(access: Access) -> Decision:
            decided = first(access) if first is not None else Decision(verdict="allow", by="claim")
            if decided.verdict == "deny" or access.kind != "write":
                return decided
            held = self.holders(self._inside(access.paths))
            return Decision(verdict="deny", reason=_description(held), by="claim") if held else decided

        return judge

    def _inside(self, paths: Iterable[str]) -> list[str]:
        full = (os.path.normpath(os.path.join(self.root, path)) for path in paths)
        return [path[len(self.top) + 1 :] for path in full if path.startswith(self.top + "/")]

    def _watch(self) -> Callable[[], None]:
        before = self._dirty()

        def check() -> None:
            held = self.holders(sorted(self._dirty() - before))
            if held:
                raise Denied(f"the command changed what it may not: {_description(held)}", hint="put it back")

        return check

    def _dirty(self) -> set[str]:
        """What differs from the start. Only looked at where another order holds something."""
        return self._differing() if self.others else set()

    def collisions(self, reported: Mapping[str, Any]) -> str:
        """New findings of the radar in words for the agent; empty when there is nothing new."""
        new = []
        for order, files in reported.items():
            mark = (order, tuple(files))
            if mark not in self._warned:
                self._warned.add(mark)
                new.append(f"{', '.join(files[:LISTED])} (order {order})")
        if not new:
            return ""
        return (
            f"Another agent changes files that you change too: {'; '.join(new)}. Keep your changes there small, or "
            "leave them to it; what both change has to be merged by hand."
        )


def _description(held: Mapping[str, list[str]]) -> str:
    claims = [f"{', '.join(paths[:LISTED])} is claimed by order {order}" for order, paths in held.items()]
    return "; ".join(claims)

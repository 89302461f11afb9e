"""Keeps what a person types while the agent is still starting, and passes it on once it has started."""

from collections.abc import Callable


class Early:
    """The `Actions` of a chat whose agent has not started yet."""

    busy = False

    def __init__(self, typed: list[str]) -> None:
        self.typed = typed
        self.gave_up: Callable[[], object] = lambda: None
        """Called when the person leaves before there is anything to talk to."""

    def enter(self, text: str) -> None:
        self.typed.append(text)

    queue = enter

    def unqueue(self) -> str | None:
        return self.typed.pop() if self.typed else None

    def interrupt(self) -> bool:
        return False

    def next_mode(self) -> None:
        """Nothing yet: the mode belongs to a session."""

    def leave(self) -> None:
        self.gave_up()

    quit = leave

    async def rest(self) -> None:
        """Return at once: nothing runs yet."""

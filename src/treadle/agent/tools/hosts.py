"""The hosts that one command wants to reach and that are not in its list: each is asked about once."""

import asyncio
from collections.abc import Awaitable, Callable

from treadle.events import Asked, Warned
from treadle.policy.network import shown
from treadle.sessions.session import new_id


def host_question(who: str, host: str, port: int, *, call: str | None, deadline: float | None) -> Asked:
    return Asked(
        request=new_id("ask"),
        kind="permission",
        text=f"{who} wants to reach {shown(host, port)}, which is not among the hosts that may be reached",
        call=call,
        name="network",
        args={"host": host, "port": port},
        tool_kind="network",
        deadline=deadline,
    )


def host_granted(host: str, port: int) -> Warned:
    name = shown(host, port)
    hint = "For good: add it to network in the settings, or to --network"
    return Warned(message=f"{name} can be reached for the rest of this session. {hint}")


class HostQuestions:
    def __init__(self, ask: Callable[[str, int], Awaitable[bool]] | None) -> None:
        """`ask` None: no one is asked, and none is reached."""
        self._ask = ask
        self._answers: dict[tuple[str, int], asyncio.Task[bool]] = {}
        self.refused: list[str] = []
        """As a person writes them in a list."""

    async def reach(self, host: str, port: int) -> bool:
        """A program that tries again, or gives up waiting, gets or leaves the one answer."""
        at = host.lower(), port
        if at not in self._answers:
            self._answers[at] = asyncio.create_task(self._decide(*at))
        return await asyncio.shield(self._answers[at])

    async def _decide(self, host: str, port: int) -> bool:
        if self._ask is not None and await self._ask(host, port):
            return True
        name = shown(host, port)
        if name not in self.refused:
            self.refused.append(name)
        return False

    def close(self) -> None:
        """The command is over: open questions are withdrawn."""
        for answer in self._answers.values():
            answer.cancel()

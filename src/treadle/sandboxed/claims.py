"""The sandbox of a driven agent follows the claims: what others take while it runs becomes read-only, what they release
is given back.
"""

import asyncio
import logging

from treadle.errors import TreadleError
from treadle.io.process.child import Child
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import RunningSandbox
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement

SECONDS = 0.25
"""Between two looks at the claims."""
log = logging.getLogger(__name__)


class FollowedClaims:
    def __init__(self, confining: Confining, child: Child, begun: Confinement) -> None:
        """`begun`: the confinement that `child` was started with."""
        self._confining = confining
        self._held = dict(begun.held)
        self._sandbox = RunningSandbox(child, begun.write)
        self._news: list[str] = []
        self._looking = asyncio.Lock()
        """Held from reading the claims until the sandbox has them: what `_held` says is what the program meets."""
        self._task: asyncio.Task[None] | None = None
        if methods.available().method == "bubblewrap":
            self._task = asyncio.create_task(self._follow(), name="claims of others")

    async def news(self) -> list[str]:
        """What a person should know since the last time."""
        async with self._looking:  # what the program has already noticed is reported, too
            news, self._news = self._news, []
        return news

    async def _follow(self) -> None:
        try:
            while True:
                await asyncio.sleep(SECONDS)
                await self.look()
        except (TreadleError, OSError) as error:
            log.info("claims are not followed any more: %s", error)
            self._news.append(f"what others claim from now on is not protected from this agent: {error}")

    async def look(self) -> None:
        async with self._looking:
            held = await asyncio.to_thread(self._confining.held)
            if held.keys() == self._held.keys():
                return
            new = [path for path in held if path not in self._held]
            failed = await self._sandbox.change(new, [path for path in self._held if path not in held])
            self._news += [f"read-only for this agent from now on: {held[path]}" for path in new if path not in failed]
            self._news += [f"{path} is not protected from this agent: {why}" for path, why in failed.items()]
            self._held = dict(held)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._sandbox.close()

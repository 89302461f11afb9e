"""A sandbox that runs: what is read-only in it is changed from outside, by a process that joins it (`keeping.py`)."""

import os
import sys
from collections.abc import Iterable, Sequence

import msgspec

from treadle.errors import LocalError, TimedOut
from treadle.io.process import child as children
from treadle.io.process.child import Child
from treadle.io.within import within

ANSWER_SECONDS = 20.0


class RunningSandbox:
    def __init__(self, wrapper: Child, tops: Sequence[str]) -> None:
        """`wrapper`: what `start.start` returned; `tops`: the writable places."""
        self._wrapper = wrapper
        self._tops = [os.path.realpath(top) for top in tops if os.path.exists(top)]
        self._helper: Child | None = None

    async def change(self, keep: Iterable[str], release: Iterable[str]) -> dict[str, str]:
        """Make paths read-only, and give others back. Returns those for which that failed, each with the reason."""
        asked = msgspec.json.encode({"keep": [*keep], "release": [*release]})
        try:
            async with within(ANSWER_SECONDS):
                if self._helper is None:
                    self._helper = await self._start()
                await self._helper.stdio.write(asked + b"\n")
                answer = b""
                while not answer.endswith(b"\n"):
                    more = await self._helper.stdio.read()
                    if not more:
                        raise LocalError(f"the sandbox cannot be changed: {await self._helper.last_words()}")
                    answer += more
        except TimeoutError as error:
            raise TimedOut(f"the sandbox was not changed within {ANSWER_SECONDS:g} s") from error
        return dict(msgspec.json.decode(answer)["failed"])

    async def _start(self) -> Child:
        with open(f"/proc/{self._wrapper.pid}/task/{self._wrapper.pid}/children", encoding="ascii") as file:
            inside = file.read().split()
        if not inside:
            raise LocalError("the sandbox cannot be changed: nothing runs in it")
        argv = [sys.executable, "-P", "-m", "treadle.io.sandbox.keeping", inside[0], *self._tops]
        return await children.start(argv, cwd="/", stdin="pipe")

    def close(self) -> None:
        """Stop changing it; what is read-only stays so."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None

"""One WebSocket for each tab, for everything that it follows.

    tab:    {"do": "sub", "topic": "run:ID", "params": {"after": 812}}   {"do": "unsub", "topic": "run:ID"}
            {"do": "ping"}                                               {"do": "visible", "visible": false}
    server: {"t": "hello", "boot": ..., "right": ...}   {"t": "beat", "now": ...}   {"t": "run:ID", ...}

Beats are sent before anything else that waits, and no message is much larger than 64 KB, so that a busy connection is
never taken for a dead one. A tab that does not read is cut off; one that comes back continues where it was.
"""

import asyncio
import time
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from treadle import __version__
from treadle.errors import TreadleError
from treadle.fleet.engine import tasks
from treadle.serve.gate import PROTOCOL
from treadle.serve.live import topics
from treadle.serve.live.topics import Topic
from treadle.serve.site import Site

BEAT = 5.0
TOPICS_MAX = 300
TABS_MAX = 1000
SEND_SECONDS = 30.0
"""How long a tab may take to accept one message; a slower one counts as not reading any more."""


class Tab:
    def __init__(self, site: Site, socket: WebSocket) -> None:
        self.site = site
        self.socket = socket
        self.visible = True
        self.topics: dict[str, Topic] = {}
        self.wake = asyncio.Event()
        self._beat_at = 0.0
        self._pongs: list[Any] = []

    async def run(self) -> None:
        device = self.socket.scope["device"]
        if device is None or len(self.site.tabs) >= TABS_MAX:
            await self.socket.close(4401 if device is None else 1013, "sign in first" if device is None else "too many")
            return
        # A browser that offers protocols closes the connection unless one of them is chosen.
        offered = PROTOCOL in self.socket.scope.get("subprotocols", ())
        await self.socket.accept(PROTOCOL if offered else None)
        self.site.tabs.add(self.socket)
        hello = {
            "t": "hello",
            "boot": self.site.boot,
            "version": __version__,
            "now": time.time(),
            "right": device.right,
            "device": device.name,
            "fleet": self.site.fleet.state(),
        }
        working: list[asyncio.Task[None]] = []
        try:
            await self._send(hello)
            working = [asyncio.create_task(self._read_all()), asyncio.create_task(self._send_all())]
            done, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            pass  # the tab went away
        finally:
            self.site.tabs.discard(self.socket)
            await tasks.end(working)
            await asyncio.gather(*working, return_exceptions=True)
            for topic in self.topics.values():
                topic.close()

    async def _read_all(self) -> None:
        while True:
            text = await self.socket.receive_text()
            try:
                given = msgspec.json.decode(text)
                await self._take(given)
            except (msgspec.MsgspecError, TypeError, ValueError, AttributeError, KeyError) as error:
                self._pongs.append({"t": "refused", "message": f"this was not understood: {error}"[:300]})
                self.wake.set()

    async def _take(self, given: dict[str, Any]) -> None:
        do = given["do"]
        if do == "ping":
            self._pongs.append({"t": "pong", "n": given.get("n"), "now": time.time()})
        elif do == "visible":
            self.visible = bool(given["visible"])
        elif do == "unsub":
            self._end(str(given["topic"]))
        elif do == "sub":
            await self._begin(str(given["topic"]), dict(given.get("params") or {}))
        else:
            raise ValueError(f"no one knows {str(do)[:40]!r}")
        self.wake.set()

    async def _begin(self, name: str, params: dict[str, Any]) -> None:
        known = self.topics.get(name)
        if known is not None and known.adapt(params):
            return
        self._end(name)
        topic = topics.make(self.site, self, name, params)
        if topic is None or len(self.topics) >= TOPICS_MAX:
            raise ValueError(f"there is no topic {name[:60]!r}, or too many are followed")
        try:
            if topic.needs_fleet:
                self.site.fleet.require_bus()
            await topic.open()
        except TreadleError as error:
            self._pongs.append({"t": name, "error": error.envelope()})
            return
        self.topics[name] = topic

    def _end(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            topic.close()

    # Writing...

    async def _send_all(self) -> None:
        while True:
            await self._urgent()
            now = time.monotonic()
            due = [topic for topic in self.topics.values() if self._is_due(topic, now)]
            for topic in sorted(due, key=lambda each: each.sent_at):
                topic.dirty, topic.sent_at = False, now
                made = await topics.message_of(topic)
                if made is not None and self.topics.get(topic.name) is topic:
                    await self._send({"t": topic.name, **made})
                await self._urgent()
            await self._pause()

    def _is_due(self, topic: Topic, now: float) -> bool:
        if topic.every and now - topic.sent_at >= topic.every:
            return True
        return topic.dirty and now - topic.sent_at >= topic.pause

    async def _urgent(self) -> None:
        while self._pongs:
            await self._send(self._pongs.pop(0))
        if time.monotonic() - self._beat_at >= BEAT:
            self._beat_at = time.monotonic()
            await self._send({"t": "beat", "now": time.time()})

    async def _pause(self) -> None:
        """Wait until there is something to send."""
        now = time.monotonic()
        until = self._beat_at + BEAT
        for topic in self.topics.values():
            if topic.dirty:
                until = min(until, topic.sent_at + topic.pause)
            if topic.every:
                until = min(until, topic.sent_at + topic.every)
        if self.topics and until <= now or self._pongs:
            return await asyncio.sleep(0)
        try:
            async with asyncio.timeout(max(0.001, until - now)):
                await self.wake.wait()
        except TimeoutError:
            pass
        self.wake.clear()

    async def _send(self, message: dict[str, Any]) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await self.socket.send_text(msgspec.json.encode(message).decode())

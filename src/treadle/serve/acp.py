"""An agent for editors elsewhere: the Agent Client Protocol over WebSockets, a message in each text frame."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from treadle.doors.acp.door import AcpDoor
from treadle.errors import PeerClosed
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks, start_held
from treadle.serve.envelope import broken, not_routed
from treadle.serve.gate import Gate
from treadle.serve.tokens import Tokens

PATH = "/acp"
EDITORS_MAX = 50
"""Each holds a process of an agent for each of its sessions."""
MESSAGE_MAX = 32 * 1024 * 1024
"""A prompt may carry pictures."""
REFUSED, FULL = 1008, 1013
HINT = "`treadle serve --token` prints one, for the header Authorization: Bearer TOKEN"


class SocketStream:
    """A WebSocket as a stream of lines. Who has left is noticed by `read`, which the door never leaves for long."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._gone = asyncio.Event()
        self._rest = b""

    async def read(self) -> bytes:
        try:
            text = await self._socket.receive_text()
        except (
            WebSocketDisconnect,
            KeyError,
            RuntimeError,
        ):  # it left, or sent bytes, which the protocol has no use for
            self._gone.set()
            return b""
        # Between the tokens of JSON a newline is a space, and inside of its texts there is none.
        return text.replace("\n", " ").encode(errors="surrogatepass") + b"\n"

    async def write(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                await self._socket.send_text(line.decode())
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise PeerClosed("the editor has left") from error

    async def abandoned(self) -> None:
        await self._gone.wait()

    def close_write(self) -> None:
        pass  # a WebSocket closes in both directions

    def close(self) -> None:
        self._gone.set()


class AcpServer:
    """`door` serves one editor."""

    def __init__(self, door: Callable[[Stream], AcpDoor], *, address: str, names: set[str], tokens: Tokens) -> None:
        self._door = door
        self._open: set[asyncio.Task[None]] = set()
        refusing: Any = {404: not_routed, 405: not_routed, Exception: broken}
        app = Starlette(routes=[WebSocketRoute(PATH, self._serve)], lifespan=None, exception_handlers=refusing)
        secure = address.startswith("https:")
        self.gate = Gate(
            app,
            tokens,
            names=names,
            public=lambda path: False,
            cookie="treadle_acp",
            secure=secure,
            hint=HINT,
            message_max=MESSAGE_MAX,
        )

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        await end_tasks(*self._open)

    async def _serve(self, socket: WebSocket) -> None:
        if socket.scope["device"].right != "all":
            return await socket.close(REFUSED, "this token may not start agents")
        if len(self._open) >= EDITORS_MAX:
            return await socket.close(FULL, f"{EDITORS_MAX} editors are connected")
        await socket.accept()
        await start_held(self._open, self._converse(socket))

    async def _converse(self, socket: WebSocket) -> None:
        stream = SocketStream(socket)
        try:
            await self._door(stream).run()
        finally:
            stream.close()

"""A worker process, and the messages that open and close a session with it."""

from typing import Any

from treadle.drivers.worker.init import init_config
from treadle.errors import RemoteError, RemoteProtocolError, VersionMismatch
from treadle.io.peer import Peer
from treadle.io.within import within
from treadle.session import SessionSpec
from treadle.wire.worker.codec import BadLine
from treadle.wire.worker.messages import AnyRequest, EventLine, Init, InitOk, SendResult, Shutdown, ShutdownOk
from treadle.wire.worker.versions import BASE, NEWEST, parse_version


class WorkerPeer(Peer[Any, AnyRequest]):
    async def shake_hands(self, spec: SessionSpec) -> InitOk:
        """Open the session at the other end, within the time for all of it."""
        version = f"{NEWEST[0]}.{NEWEST[1]}.0"
        async with self.handshake("did not answer the init"):
            await self.say(Init(id="init-1", protocol_version=version, config=init_config(spec)))
            return await self._accepted(await self._init_answer(), version)

    async def _init_answer(self) -> InitOk:
        while True:
            heard = await self.hear(2 * self.patience.handshake)
            while heard:
                item = heard.popleft()
                if isinstance(item, InitOk):
                    return item
                if isinstance(item, SendResult):
                    reason = item.error.message if item.error else "no reason given"
                    raise await self.blame(RemoteError, f"refused to start a session: {reason}")
                await self.wrong(item)

    async def _accepted(self, answer: InitOk, version: str) -> InitOk:
        if answer.error is not None:
            kind = VersionMismatch if answer.error.code == VersionMismatch.code else RemoteError
            raise await self.blame(kind, f"refused to start a session: {answer.error.message}")
        theirs = parse_version(answer.protocol_version) if answer.protocol_version is not None else BASE
        if theirs is None or theirs[0] != NEWEST[0]:
            raise await self.blame(VersionMismatch, f"speaks version {answer.protocol_version}, we speak {version}")
        return answer

    async def wrong(self, item: Any) -> None:
        """Something other than the expected message came: skip what may be skipped, and raise for the rest."""
        if isinstance(item, BadLine) and isinstance(item.untimely, EventLine):
            return  # such as a heartbeat that was overtaken by the result
        if isinstance(item, RemoteProtocolError):
            more = f" ({item.details})" if item.details else ""
            raise await self.blame(RemoteProtocolError, f"broke the protocol: {item.message}{more}")
        if isinstance(item, SendResult):
            raise await self.blame(RemoteProtocolError, f"gave a result for {item.id!r}, which no one asked for")

    async def say_goodbye(self) -> None:
        """Ask it to end, and make sure that it does."""
        if self.gone:
            return
        try:
            async with within(self.patience.shutdown):
                await self.say(Shutdown(id="shutdown-1"))
                while not isinstance((await self.hear(self.patience.shutdown)).popleft(), ShutdownOk):
                    pass
                await self.child.wait()
        except (TimeoutError, RemoteError):
            pass  # it was asked, and is now killed
        finally:
            await self.end()

"""One end of a JSON-RPC conversation: call the other end, and answer what it calls.

    rpc = Rpc(link.send, answer=answer, notice=notice)
    async for messages in link.batches():
        rpc.take(messages)
    rpc.lost(PeerClosed("it has ended"))

It does no I/O itself: messages leave through `say` and come in through `take`.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from treadle.errors import InvalidJson, LineTooLong, RemoteError, RemoteProtocolError, TreadleError
from treadle.io.tasks import end_tasks
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, PARSE_ERROR, Fault
from treadle.wire.common.rpc import CallKey, Returned, RpcCall, RpcMessage, RpcNotice, RpcRefused

log = logging.getLogger(__name__)


class CallFailed(RemoteError):
    """The other end answered a call with an error."""

    def __init__(self, method: str, refused: RpcRefused) -> None:
        detail = refused.data if isinstance(refused.data, str) else ""
        if isinstance(refused.data, dict):
            detail = next(
                (str(refused.data[key]) for key in ("details", "detail", "message") if refused.data.get(key)), ""
            )
        more = f": {detail}" if detail and detail not in refused.message else ""
        super().__init__(f"{refused.message}{more}", details={"method": method, "code": refused.code})
        self.method = method
        self.rpc_code = refused.code
        self.data = refused.data


class Then(NamedTuple):
    """A result, and what to do after it is sent: an editor knows a session only after the answer that names it."""

    result: Any
    after: Callable[[], Awaitable[None]]


class Rpc:
    """`answer` returns the result of a call or raises Fault; each call is answered in its own task."""

    def __init__(
        self,
        say: Callable[[RpcMessage], Awaitable[None]],
        *,
        answer: Callable[[RpcCall], Awaitable[Any]],
        notice: Callable[[RpcNotice], None],
        complains: bool = False,
    ) -> None:
        """`complains`: answer a line that is not JSON with an error. Otherwise it is skipped as stray output."""
        self._say = say
        self._answer = answer
        self._notice = notice
        self._complains = complains
        self._numbers = itertools.count(1)
        self._asked: dict[CallKey, tuple[str, asyncio.Future[Any]]] = {}
        self.answering: dict[CallKey, asyncio.Task[None]] = {}
        """The other end's calls that are being answered."""
        self.unread: list[RemoteProtocolError] = []
        """The latest of its messages that could not be read, to explain a failure."""
        self._end: TreadleError | None = None

    async def call(self, method: str, params: dict[str, Any], noted: Callable[[CallKey], None] | None = None) -> Any:
        """The result; `noted` is given the id of the call.

        Raises CallFailed for an error, and the error given to `lost` when no answer can come.
        """
        if self._end is not None:
            raise self._end
        key = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[key] = method, future
        if noted is not None:
            noted(key)
        try:
            await self._say(RpcCall(id=key, method=method, params=params))
            return await future
        finally:
            self._asked.pop(key, None)

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        await self._say(RpcNotice(method=method, params=params))

    def take(self, messages: Iterable[RpcMessage | RemoteProtocolError]) -> None:
        for message in messages:
            match message:
                case RpcNotice():
                    self._notice(message)
                case RpcCall():
                    self._begin(message.id, self._serve(message))
                case Returned() | RpcRefused():
                    self._settle(message)
                case _:
                    self._complain(message)

    def _begin(self, key: CallKey, work: Any) -> None:
        task = asyncio.create_task(work)
        self.answering[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: CallKey, task: asyncio.Task[None]) -> None:
        if self.answering.get(key) is task:
            del self.answering[key]

    async def _serve(self, call: RpcCall) -> None:
        reply: RpcMessage
        after = None
        try:
            result = await self._answer(call)
            if isinstance(result, Then):
                result, after = result
            reply = Returned(id=call.id, result=result)
        except Fault as fault:
            reply = RpcRefused(id=call.id, code=fault.code, message=fault.message, data=fault.data)
        except TreadleError as error:
            reply = RpcRefused(id=call.id, code=INTERNAL_ERROR, message=str(error), data=error.envelope())
        except Exception as error:
            log.exception("answering %s failed unexpectedly", call.method)
            reply = RpcRefused(id=call.id, code=INTERNAL_ERROR, message=f"{type(error).__name__}: {error}")
        with suppress(TreadleError):  # it is gone, which its reader will notice
            await self._say(reply)
            if after is not None:
                await after()

    def _settle(self, message: Returned | RpcRefused) -> None:
        if message.id is None or message.id not in self._asked:
            return  # the caller has stopped waiting
        method, future = self._asked.pop(message.id)
        if future.done():
            return
        if isinstance(message, RpcRefused):
            future.set_exception(CallFailed(method, message))
        else:
            future.set_result(message.result)

    def _complain(self, error: RemoteProtocolError) -> None:
        """Answer what cannot be read, if the protocol has an answer for it; otherwise skip it."""
        self.unread = [*self.unread[-9:], error]
        if isinstance(error, LineTooLong) and not self._complains:
            self.lost(error)  # it may have been an answer that someone waits for
        details = error.details if isinstance(error.details, dict) else {}
        if self._complains and isinstance(error, InvalidJson | LineTooLong):
            details = {"code": PARSE_ERROR}
        if "code" in details and not self.broken(error):
            refusal = RpcRefused(id=details.get("id"), code=details["code"], message=error.message)
            self._begin(f"unread {next(self._numbers)}", self._refuse(refusal))

    def broken(self, error: RemoteProtocolError) -> bool:
        """Whether it is the answer to a call of ours: it has its id and names no method. No other will come."""
        details = error.details if isinstance(error.details, dict) else {}
        if details.get("named") is not False or details["id"] not in self._asked:
            return False
        key, problem = details["id"], "its answer has neither a result nor an error"
        log.warning("%s: %s: %s", self._asked[key][0], problem, details["line"])
        self._settle(RpcRefused(id=key, code=INTERNAL_ERROR, message=problem))
        return True

    async def _refuse(self, refusal: RpcRefused) -> None:
        with suppress(TreadleError):
            await self._say(refusal)

    def lost(self, error: TreadleError) -> None:
        """No answer will come any more: raise `error` in every waiting call."""
        if self._end is None:
            self._end = error
        self.fail(error)

    def fail(self, error: TreadleError) -> None:
        """Raise `error` in every waiting call; others may follow."""
        for _, future in self._asked.values():
            if not future.done():
                future.set_exception(error)
        self._asked.clear()

    async def close(self) -> None:
        """Stop answering."""
        await end_tasks(*self.answering.values())

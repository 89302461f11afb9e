"""An A2A agent as an Agent. Nothing is started: it runs where its address says."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from treadle.agent.tools.images import look
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card
from treadle.errors import (
    AuthFailed,
    ConfigError,
    RemoteError,
    RemoteProtocolError,
    TreadleError,
    Unsupported,
)
from treadle.events import Asked, Message, TextDelta, TurnEnded, Warned
from treadle.io.http import HttpClient, HttpError, Response
from treadle.io.tasks import within
from treadle.policy.network import is_loopback
from treadle.session import AgentInfo, Answer, Prompt, SessionSpec, TurnId
from treadle.sessions.session import QUESTION_SECONDS, BaseSession, Turn, new_id
from treadle.wire.a2a.messages import (
    CARD_PATH,
    INTERRUPTED,
    TERMINAL,
    VERSION,
    VERSION_HEADER,
    A2aArtifact,
    A2aEvent,
    A2aMessage,
    A2aPart,
    A2aStatus,
    A2aTask,
    AgentAddress,
    ArtifactUpdate,
    Malformed,
    Operation,
    SendConfiguration,
    SendParams,
    method_of,
    plain,
    read_card,
    read_event,
    read_task,
)
from treadle.wire.common.images import media_type
from treadle.wire.models.sse import decoder_for

# Calls an A2A agent: JSON-RPC over HTTP.

LARGEST = 16 * 1024 * 1024
SECONDS = 30.0
SILENCE = 1800.0


class A2aClient:
    """`token` is sent to the origin that the person named, and to no other."""

    def __init__(self, address: AgentAddress, headers: Mapping[str, str]) -> None:
        self.address = address
        self._http = _http({**headers, VERSION_HEADER: VERSION}, SILENCE)

    async def call(self, operation: Operation, params: dict[str, Any]) -> Any:
        """The result; RemoteError when it refuses."""
        try:
            async with self._http.request("POST", self.address.url, self._body(operation, params)) as response:
                _admitted(response)
                return _result(await response.whole(LARGEST))
        except HttpError as error:
            raise RemoteError(f"{self.address.url} gave no answer: {error}") from error

    async def stream(self, operation: Operation, params: dict[str, Any]) -> AsyncGenerator[A2aEvent]:
        try:
            async with self._http.request("POST", self.address.url, self._body(operation, params)) as response:
                _admitted(response)
                decoder = decoder_for(response.headers.get("content-type", ""))
                read = 0
                async for chunk in response.chunks():
                    read += len(chunk)
                    if read > 64 * LARGEST:
                        raise RemoteProtocolError(f"a stream of more than {64 * LARGEST} bytes")
                    for data in decoder.feed(chunk):
                        yield self._event(data)
                for data in decoder.end():
                    yield self._event(data)
        except HttpError as error:
            raise RemoteError(f"{self.address.url} broke off: {error}") from error

    async def close(self) -> None:
        await self._http.aclose()

    def event(self, result: Any) -> A2aEvent:
        try:
            return read_event(result)
        except Malformed as error:
            raise RemoteProtocolError(f"its answer is not valid A2A {VERSION}: {error}") from error

    def _event(self, data: bytes) -> A2aEvent:
        return self.event(_result(data))

    def _body(self, operation: Operation, params: dict[str, Any]) -> bytes:
        call = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method_of(operation), "params": params}
        return msgspec.json.encode(call)


async def connect(url: str, token: str) -> A2aClient:
    """Read the card of the agent at this address, and speak to it as the card says."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not the address of an A2A agent", hint="such as a2a:https://agent.example")
    if token and parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(
            f"{parts.hostname} is another machine, and the token would be sent in plain text", hint="https"
        )
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    found = url if url.endswith(".json") else f"{url.rstrip('/')}{CARD_PATH}"
    http = _http({**headers, VERSION_HEADER: VERSION}, SECONDS)
    try:
        async with http.request("GET", found) as response:
            _admitted(response)
            address = read_card(_json(await response.whole(LARGEST)))
    except HttpError as error:
        raise RemoteError(f"{found} cannot be read: {error}") from error
    except Malformed as error:
        raise RemoteProtocolError(f"{found} is not a usable agent card: {error}") from error
    finally:
        await http.aclose()
    if _origin(address.url) != _origin(url):
        problem = f"the card at {url} sends us to {address.url}, which is another server"
        raise RemoteError(problem, hint="name that address if you trust it")
    return A2aClient(address, headers)


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _http(headers: Mapping[str, str], silence: float) -> HttpClient:
    return HttpClient(headers, connect_seconds=SECONDS, idle_seconds=silence)


def _admitted(response: Response) -> None:
    if response.status in (401, 403):
        raise AuthFailed(f"it answered {response.status}", hint="put its token into TREADLE_A2A_TOKEN")
    if response.status >= 300:
        raise RemoteError(f"it answered {response.status}")


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error


def _result(data: bytes) -> Any:
    try:
        found = _json(data)
    except Malformed as error:
        raise RemoteProtocolError(f"its answer cannot be read: {error}") from error
    if isinstance(found, dict) and isinstance(refused := found.get("error"), dict):
        raise RemoteError(f"it refused: {refused.get('message')}", details={"code": refused.get("code")})
    if not isinstance(found, dict) or "result" not in found:
        raise RemoteProtocolError("its answer has neither a result nor an error")
    return found["result"]


# A conversation with an A2A agent: a context. A turn is a task, with the replies to what it asks.

POLL = 1.0
CANCEL_SECONDS = 10.0
TEXT_ONLY = SendConfiguration(accepted_output_modes=("text/plain",))


class A2aSession(BaseSession):
    def __init__(self, card: Card, spec: SessionSpec, client: A2aClient) -> None:
        info = AgentInfo(
            name=card.name,
            version=client.address.agent_version,
            capabilities=dict(card.capabilities),
            mode=spec.mode,
            losses=card.losses,
        )
        patience = QUESTION_SECONDS if spec.answer_seconds is None else spec.answer_seconds
        super().__init__(new_id("a2a"), info, answers=spec.answers, question_seconds=patience)
        self._client = client
        self._context = ""
        self._task = ""
        self._texts: dict[str, str] = {}
        self._whole: set[str] = set()
        """Artifacts that were reported as messages."""

    async def prompt(self, prompt: Prompt) -> TurnId:
        if prompt.images and not self._client.address.images:
            raise Unsupported(f"{self._client.address.name} accepts no images")
        for number, data in enumerate(prompt.images, 1):
            look(data, f"image {number}")
        return await super().prompt(prompt)

    async def _turn(self, turn: Turn) -> TurnEnded:
        try:
            return await self._until_ended(turn)
        except asyncio.CancelledError:
            await self._cancel()
            raise

    async def _until_ended(self, turn: Turn) -> TurnEnded:
        self._task = ""
        self._texts, self._whole = {}, set()
        images = tuple(A2aPart(raw=data, media_type=media_type(data)) for data in turn.prompt.images)
        message = self._message((A2aPart(text=turn.prompt.text), *images))
        while True:
            status = await self._exchange(message)
            self._report(turn, status)
            if status.state not in INTERRUPTED:
                break
            message = await self._reply(status)
        if status.state == "completed":
            return turn.ending("completed")
        words = status.message.text if status.message is not None else ""
        raise RemoteError(f"the task was {status.state}{f': {words}' if words else ''}")

    def _message(self, parts: tuple[A2aPart, ...]) -> A2aMessage:
        return A2aMessage(id=str(uuid.uuid4()), role="user", parts=parts, context=self._context, task=self._task)

    # One message and what comes of it

    async def _exchange(self, message: A2aMessage) -> A2aStatus:
        """Send it, and follow the task until it has ended or needs something."""
        params = plain(SendParams(message=message, configuration=TEXT_ONLY))
        if not self._client.address.streaming:
            status = await self._take(self._client.event(await self._client.call("send", params)))
        else:
            status = None
            async with contextlib.aclosing(self._client.stream("stream", params)) as events:
                async for event in events:
                    status = await self._take(event)
                    if _rests(status):
                        break
        while status is None or not _rests(status):
            if not self._task:
                raise RemoteProtocolError("it answered with neither a task nor a message")
            await asyncio.sleep(POLL)
            try:
                status = await self._take(read_task(await self._client.call("get", {"id": self._task})))
            except Malformed as error:
                raise RemoteProtocolError(f"its answer is not a task: {error}") from error
        return status

    async def _take(self, event: A2aEvent) -> A2aStatus | None:
        """The state that the task is in now, if the event says so."""
        await self.room()
        if isinstance(event, A2aMessage):  # an answer without a task
            self._context = event.context or self._context
            self._texts["message"] = event.text
            return A2aStatus(state="completed")
        self._context = event.context or self._context
        if isinstance(event, ArtifactUpdate):
            self._piece(event.artifact, append=event.append)
            return None
        if isinstance(event, A2aTask):
            self._task = event.id
            for artifact in event.artifacts:
                self._piece(artifact, append=False)
        return event.status

    def _piece(self, artifact: A2aArtifact, *, append: bool) -> None:
        before = self._texts.get(artifact.id, "")
        after = before + artifact.text if append else artifact.text
        self._texts[artifact.id] = after
        if after.startswith(before) and len(after) > len(before) and artifact.id not in self._whole:
            self.emit(TextDelta(text=after[len(before) :]))

    def _report(self, turn: Turn, status: A2aStatus) -> None:
        """Report what is complete. Many agents say their answer only in the message of the last status."""
        if status.state == "completed" and status.message is not None and not any(self._texts.values()):
            self._texts["status"] = status.message.text
        for name, text in self._texts.items():
            if text and name not in self._whole:
                self._whole.add(name)
                self.emit(Message(text=text))
                turn.text = text

    # Questions

    async def _reply(self, status: A2aStatus) -> A2aMessage:
        if status.state == "auth-required":
            raise AuthFailed("the agent asks for a sign-in, which is not possible here")
        parts = status.message.parts if status.message is not None else ()
        words = (
            status.message.text if status.message is not None else "The agent needs something, and does not say what."
        )
        details = next((part.data for part in parts if isinstance(part.data, dict) and "question" in part.data), None)
        options = details.get("options", []) if details is not None else []
        asked = Asked(
            request=new_id("ask"),
            kind="permission" if details is not None and details["question"] == "permission" else "question",
            text=words,
            name=str(details.get("tool") or "") or None if details is not None else None,
            args=details.get("args") if details is not None else None,
            options=tuple(map(str, options)) if isinstance(options, list) else (),
            deadline=self.deadline(),
        )
        return self._answered(await self.ask(asked), structured=details is not None, words=words)

    def _answered(self, answer: Answer, *, structured: bool, words: str) -> A2aMessage:
        if structured:
            data = {"decision": answer.decision, "scope": answer.scope, "text": answer.text}
            return self._message((A2aPart(data=data),))
        if answer.decision == "deny" and answer.by in ("nobody", "deadline"):
            raise RemoteError(f"its question was not answered: {words}")
        return self._message((A2aPart(text=answer.text or ("yes" if answer.decision == "allow" else "no")),))

    # Ending

    async def _cancel(self) -> None:
        if not self._task:
            return
        try:
            async with within(CANCEL_SECONDS):
                await self._client.call("cancel", {"id": self._task})
        except (TreadleError, TimeoutError) as error:
            problem = f"{self._client.address.name} was not told to stop: {str(error) or 'no answer in time'}"
            self.emit(Warned(message=problem, code="cancel_not_heeded"))

    async def _close(self) -> None:
        await self._client.close()


def _rests(status: A2aStatus | None) -> bool:
    return status is not None and status.state in (*TERMINAL, *INTERRUPTED)


TOKEN = "TREADLE_A2A_TOKEN"


class A2aAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> A2aSession:
        return A2aSession(self.card, spec, await self._connect(env))

    async def version(self) -> str:
        client = await self._connect(self.env({}))
        await client.close()
        return client.address.agent_version

    async def _connect(self, env: dict[str, str]) -> A2aClient:
        if len(self.launch.argv) != 1:
            raise ConfigError("an A2A agent is named by one address", hint="such as --agent a2a:https://agent.example")
        name = str(self.launch.options.get("token", TOKEN))
        return await connect(self.launch.argv[0], env.get(name, ""))

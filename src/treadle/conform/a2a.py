"""Clauses for an A2A agent: its card, and JSON-RPC over HTTP in version 1.0 or, where it has no other, 0.3.

The candidate is the address of one that runs, or a command with `{port}` in it.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from treadle.agent.providers.script import parse
from treadle.conform.kit import ANSWER, PLAIN, Broken, Candidate, Kit, Untried, expect, pointed_at
from treadle.conform.lines import shown
from treadle.conform.rpc import refusal
from treadle.errors import RemoteProtocolError
from treadle.io import scratch
from treadle.io.http import HttpClient, HttpError
from treadle.io.process.child import start
from treadle.io.tasks import within
from treadle.testing.server import ModelServer

KIT = Kit(protocol="a2a", specification="Agent2Agent protocol, 1.0 or 0.3, over JSON-RPC", clauses=[])

CARD, MESSAGES, TASKS, STREAMS, RPC = "agent card", "messages", "tasks", "streams", "JSON-RPC"
CARD_PATH = "/.well-known/agent-card.json"
LONGEST = 16 * 1024 * 1024
SLOW = '[[reply]]\ntext = "Slow."\ndelay = 600\n'
NAMES = {
    "send": ("SendMessage", "message/send"),
    "stream": ("SendStreamingMessage", "message/stream"),
    "get": ("GetTask", "tasks/get"),
    "cancel": ("CancelTask", "tasks/cancel"),
    "subscribe": ("SubscribeToTask", "tasks/resubscribe"),
}
STATES = ("submitted", "working", "input-required", "auth-required")
ENDED = ("completed", "failed", "canceled", "rejected")
TASK_NOT_FOUND, NOT_CANCELABLE, PUSH_NOT_SUPPORTED, UNSUPPORTED = -32001, -32002, -32003, -32004


class A2aPeer:
    """The agent at an address. Every answer is looked at before it is believed."""

    def __init__(self, url: str, patience: float, *, scripted: bool) -> None:
        self.base, self._patience = url.rstrip("/"), patience
        self.scripted = scripted
        """Whether its model is ours."""
        self.url = self.base
        self.current = True
        """Whether it is spoken to in 1.0."""
        self.card: dict[str, Any] = {}

    async def ask(self, method: str, url: str, body: bytes = b"", **headers: str) -> tuple[dict[str, str], bytes]:
        given = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        given |= {"A2A-Version": "1.0"} if self.current else {}
        given |= {name.replace("_", "-"): text for name, text in headers.items()}
        if token := os.environ.get("TREADLE_A2A_TOKEN", ""):
            given["authorization"] = f"Bearer {token}"
        client = HttpClient(given, connect_seconds=self._patience, idle_seconds=self._patience)
        try:
            async with within(self._patience), client.request(method, url, body) as response:
                found = b""
                async for chunk in response.chunks():
                    found += chunk
                    if len(found) > LONGEST:
                        raise RemoteProtocolError(f"it answered with more than {LONGEST} bytes")
                if response.status != 200:
                    raise Broken(f"it answered {response.status}: {shown(found)}")
                return response.headers, found
        except HttpError as error:
            raise RemoteProtocolError(f"it gave no answer: {error}") from error
        finally:
            await client.aclose()

    async def meet(self) -> None:
        """Read its card, and choose the version."""
        headers, body = await self.ask("GET", f"{self.base}{CARD_PATH}")
        expect("json" in headers.get("content-type", ""), headers.get("content-type"), "the card is not JSON")
        self.card = _object(body)
        ways = [way for way in self.card.get("supportedInterfaces") or [] if isinstance(way, dict)]
        new = [
            way for way in ways if way.get("protocolBinding") == "JSONRPC" and str(way.get("protocolVersion")) >= "1"
        ]
        self.current = bool(new)
        if new:
            self.url = str(new[0].get("url"))
        elif self.card.get("preferredTransport", "JSONRPC") == "JSONRPC" and self.card.get("url"):
            self.url = str(self.card["url"])
        else:
            raise Untried("its card names no JSON-RPC interface")

    async def rpc(self, method: str, params: Any, ident: Any = 1, **headers: str) -> dict[str, Any]:
        """The whole response."""
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        _, found = await self.ask("POST", self.url, body, **headers)
        line = _object(found)
        expect(line.get("jsonrpc") == "2.0", line, "it does not say that it is JSON-RPC 2.0")
        expect(("result" in line) != ("error" in line), line, "it has not either a result or an error")
        return line

    async def call(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.rpc(self.method(name), params)

    def method(self, name: str) -> str:
        return NAMES[name][0 if self.current else 1]

    def message(self, text: str = "Hello.", **more: Any) -> dict[str, Any]:
        if self.current:
            return {"messageId": os.urandom(8).hex(), "role": "ROLE_USER", "parts": [{"text": text}], **more}
        parts = [{"kind": "text", "text": text}]
        return {"kind": "message", "messageId": os.urandom(8).hex(), "role": "user", "parts": parts, **more}

    async def send(self, text: str = "Hello.", *, now: bool = False, **more: Any) -> dict[str, Any]:
        """The task that this makes; Untried when it answers without one, or cannot answer."""
        waits: dict[str, Any] = {"returnImmediately": now} if self.current else {"blocking": not now}
        line = await self.call("send", {"message": self.message(text, **more), "configuration": waits})
        if "error" in line:
            raise Broken(f"the message was refused: {shown(line['error'])}")
        result = line["result"]
        task = result.get("task") if self.current else result if result.get("kind") == "task" else None
        if not isinstance(task, dict):
            raise Untried("it answers with a message, not with a task")
        return task

    async def ended(self) -> dict[str, Any]:
        """A task that has ended."""
        task = await self.send()
        if state_of(task) not in ENDED:
            raise Untried(f"its task did not end, but is {state_of(task)}")
        return task

    async def stream(self, name: str, params: dict[str, Any]) -> tuple[dict[str, str], list[dict[str, Any]]]:
        capabilities = self.card.get("capabilities") or {}
        if capabilities.get("streaming") is not True:
            raise Untried("its card declares no streaming")
        request = {"jsonrpc": "2.0", "id": "s-1", "method": self.method(name), "params": params}
        headers, body = await self.ask("POST", self.url, msgspec.json.encode(request))
        if "text/event-stream" not in headers.get("content-type", ""):
            return headers, [_object(body)]
        text = body.decode(errors="replace").replace("\r\n", "\n")
        blocks = [[line[5:] for line in block.split("\n") if line.startswith("data:")] for block in text.split("\n\n")]
        return headers, [_object("".join(data).encode()) for data in blocks if data]

    def payload(self, line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The kind of a stream's event, as 0.3 calls them, and the event."""
        result = line.get("result")
        if not isinstance(result, dict):
            raise Broken(f"an event of the stream is no result: {shown(line)}")
        if not self.current:
            return str(result.get("kind")), result
        names = {
            "task": "task",
            "message": "message",
            "statusUpdate": "status-update",
            "artifactUpdate": "artifact-update",
        }
        [(name, found)] = result.items() if len(result) == 1 else [("", {})]
        expect(name in names and isinstance(found, dict), line, "it is not exactly one of the four kinds")
        return names[name], found


def state_of(task: dict[str, Any]) -> str:
    """Its state, as 0.3 writes it."""
    status = task.get("status")
    state = str(status.get("state") if isinstance(status, dict) else None)
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def text_of(task: dict[str, Any]) -> str:
    status = task.get("status") or {}
    held = [*(task.get("artifacts") or []), *([status["message"]] if status.get("message") else [])]
    held += [message for message in task.get("history") or [] if "agent" in str(message.get("role")).lower()]
    return "".join(str(part.get("text", "")) for each in held for part in each.get("parts") or [])


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.MsgspecError as error:
        raise Broken(f"it answered what is no JSON: {shown(body)}") from error
    if not isinstance(found, dict):
        raise Broken(f"it answered what is no JSON object: {shown(body)}")
    return found


@contextlib.asynccontextmanager
async def met(candidate: Candidate, script: str = PLAIN) -> AsyncIterator[A2aPeer]:
    """The agent, whose card was read."""
    if candidate.command[0].startswith(("http://", "https://")):
        peer = A2aPeer(candidate.command[0], candidate.patience, scripted=False)
        await peer.meet()
        yield peer
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [word.replace("{port}", port) for word in candidate.command]
    async with ModelServer(parse(script)) as server:
        with scratch.directory("conform") as directory:
            env = {**os.environ, "PORT": port, **pointed_at(server.url), **candidate.env}
            async with await start(command, env=env, cwd=directory) as child:
                peer = A2aPeer(f"http://127.0.0.1:{port}", candidate.patience, scripted=True)
                await _up(peer, child, candidate.patience)
                await peer.meet()
                yield peer


async def _up(peer: A2aPeer, child: Any, patience: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with within(patience):
            while child.exit_code is None:
                with contextlib.suppress(RemoteProtocolError, Broken):
                    await peer.ask("GET", f"{peer.base}{CARD_PATH}")
                    return
                await asyncio.sleep(0.05)
    last = (await child.last_words()).strip()[-300:]
    raise Broken(f"there is no card at {peer.base}{CARD_PATH} after {patience:g} s: {last}")


clause = KIT.opening(met)


@clause(CARD, "the card is at /.well-known/agent-card.json and has every required field")
async def _(peer: A2aPeer) -> str:
    texts = ["name", "description", "version"] + ([] if peer.current else ["url", "protocolVersion"])
    for name in texts:
        expect(isinstance(peer.card.get(name), str) and peer.card[name] != "", peer.card.get(name), f"no {name}")
    for name in ("skills", "defaultInputModes", "defaultOutputModes"):
        expect(isinstance(peer.card.get(name), list) and peer.card[name] != [], peer.card.get(name), f"no {name}")
    expect(isinstance(peer.card.get("capabilities"), dict), peer.card.get("capabilities"), "no capabilities")
    return f"{peer.card['name']}, {'1.0' if peer.current else '0.3'}"


@clause(CARD, "each skill has an id, a name, a description and tags")
async def _(peer: A2aPeer) -> str:
    for skill in peer.card.get("skills") or []:
        whole = all(isinstance(skill.get(name), str) and skill[name] for name in ("id", "name", "description"))
        expect(whole and isinstance(skill.get("tags"), list), skill, "a field is missing")
    return f"{len(peer.card.get('skills') or [])} skills"


@clause(CARD, "each interface has a url, a binding and a version without a patch number")
async def _(peer: A2aPeer) -> str:
    if not peer.current:
        raise Untried("it speaks 0.3")
    for way in peer.card["supportedInterfaces"]:
        expect(all(isinstance(way.get(name), str) for name in ("url", "protocolBinding")), way, "a field is missing")
        expect(str(way.get("protocolVersion")).count(".") == 1, way, "the version is not MAJOR.MINOR")
    return shown([way["protocolVersion"] for way in peer.card["supportedInterfaces"]])


@clause(MESSAGES, "a task has an id, a context and a state of the protocol")
async def _(peer: A2aPeer) -> str:
    task = await peer.send()
    expect(isinstance(task.get("id"), str) and task["id"] != "", task, "it has no id")
    expect(isinstance(task.get("contextId"), str) and task["contextId"] != "", task, "it has no contextId")
    expect(state_of(task) in (*STATES, *ENDED), task.get("status"), "the state is not known")
    upper = str(task["status"]["state"]).startswith("TASK_STATE_")
    expect(upper == peer.current, task["status"], "the state is written as in another version")
    return state_of(task)


@clause(MESSAGES, "an answer that is waited for is that of a task that has ended or needs something")
async def _(peer: A2aPeer) -> str:
    task = await peer.send()
    expect(state_of(task) in (*ENDED, "input-required", "auth-required"), task, "it is still going on")
    return state_of(task)


@clause(MESSAGES, "what the model says is in the task")
async def _(peer: A2aPeer) -> str:
    task = await peer.ended()
    expect(ANSWER in text_of(task) if peer.scripted else text_of(task) != "", task, "it is not there")
    return shown(text_of(task))


@clause(MESSAGES, "each message without a task begins one of its own")
async def _(peer: A2aPeer) -> str:
    first, second = await peer.send(), await peer.send()
    expect(first["id"] != second["id"], second["id"], "both have the same id")
    return f"{first['id']}, {second['id']}"


@clause(MESSAGES, "a message in a context stays in it")
async def _(peer: A2aPeer) -> str:
    first = await peer.send()
    second = await peer.send("Again.", contextId=first["contextId"])
    expect(second["contextId"] == first["contextId"], second, "the context is another")
    return str(second["contextId"])


@clause(MESSAGES, "a message for a task that does not exist is refused with -32001")
async def _(peer: A2aPeer) -> str:
    return refusal(await peer.call("send", {"message": peer.message(taskId="no-such-task")}), TASK_NOT_FOUND)


@clause(MESSAGES, "a message for a task that has ended is refused")
async def _(peer: A2aPeer) -> str:
    task = await peer.ended()
    line = await peer.call("send", {"message": peer.message(taskId=task["id"])})
    return refusal(line, *([UNSUPPORTED] if peer.current else []))


@clause(MESSAGES, "a message without parts, and a request without a message, are refused with -32602")
async def _(peer: A2aPeer) -> str:
    refusal(await peer.call("send", {"message": {**peer.message(), "parts": []}}), -32602)
    return refusal(await peer.call("send", {}), -32602)


@clause(TASKS, "a task that is asked for is the one that was sent")
async def _(peer: A2aPeer) -> str:
    task = await peer.ended()
    found = (await peer.call("get", {"id": task["id"]})).get("result") or {}
    expect(found.get("id") == task["id"], found, "it is another")
    expect(state_of(found) == state_of(task), found, f"it was {state_of(task)}")
    expect(found.get("contextId") == task["contextId"], found, "the context is another")
    return state_of(found)


@clause(TASKS, "with a historyLength of 0 there is no history")
async def _(peer: A2aPeer) -> str:
    task = await peer.send()
    found = (await peer.call("get", {"id": task["id"], "historyLength": 0})).get("result") or {}
    expect(found.get("id") == task["id"] and not found.get("history"), found, "there is some")
    return "none"


@clause(TASKS, "a task that does not exist is refused with -32001, whatever is asked of it")
async def _(peer: A2aPeer) -> str:
    for name in ("get", "cancel"):
        refused = refusal(await peer.call(name, {"id": "no-such-task"}), TASK_NOT_FOUND)
    return refused


@clause(TASKS, "a task that has ended cannot be cancelled: -32002")
async def _(peer: A2aPeer) -> str:
    task = await peer.ended()
    return refusal(await peer.call("cancel", {"id": task["id"]}), NOT_CANCELABLE)


@clause(TASKS, "a task that works is cancelled, and stays so", SLOW * 3)
async def _(peer: A2aPeer) -> str:
    task = await peer.send(now=True)
    if state_of(task) in ENDED:
        raise Untried("it ended before it could be cancelled")
    line = await peer.call("cancel", {"id": task["id"]})
    if not peer.scripted and "error" in line:
        raise Untried(f"it may have ended before: {shown(line['error'])}")
    expect(state_of(line.get("result") or {}) == "canceled", line, "it is not canceled")
    found = (await peer.call("get", {"id": task["id"]})).get("result") or {}
    expect(state_of(found) == "canceled", found, "it did not stay so")
    return "canceled"


@clause(TASKS, "a list has tasks, sizes and the token of the next page, without artifacts")
async def _(peer: A2aPeer) -> str:
    if not peer.current:
        raise Untried("0.3 has no list")
    task = await peer.send()
    found = (await peer.rpc("ListTasks", {"contextId": task["contextId"]})).get("result") or {}
    whole = all(type(found.get(name)) is int for name in ("totalSize", "pageSize"))
    expect(whole and isinstance(found.get("nextPageToken"), str), found, "a field is missing")
    expect([each.get("id") for each in found.get("tasks") or []] == [task["id"]], found, "it is not this task alone")
    expect("artifacts" not in found["tasks"][0], found, "there are artifacts, although none were asked for")
    return f"{found['totalSize']} tasks"


@clause(STREAMS, "a stream is server-sent events, each a response with the id of the request")
async def _(peer: A2aPeer) -> str:
    headers, lines = await peer.stream("stream", {"message": peer.message()})
    expect("text/event-stream" in headers.get("content-type", ""), headers.get("content-type"), "it is not")
    for line in lines:
        expect(line.get("id") == "s-1" and line.get("jsonrpc") == "2.0", line, "it is not the response")
    return f"{len(lines)} events"


@clause(STREAMS, "a stream begins with the task, and ends when that has ended or needs something")
async def _(peer: A2aPeer) -> str:
    _, lines = await peer.stream("stream", {"message": peer.message()})
    kinds = [peer.payload(line) for line in lines]
    if [kind for kind, _ in kinds] == ["message"]:
        return "a message alone"
    expect(kinds[0][0] == "task", lines[0], "it begins with something else")
    states = [state_of(found) for kind, found in kinds if kind in ("task", "status-update")]
    expect(states[-1] in (*ENDED, "input-required", "auth-required"), lines[-1], "it ended before")
    expect(not any(state in ENDED for state in states[:-1]), states, "it went on after the end")
    return " ".join(states)


@clause(STREAMS, "every update names its task and its context")
async def _(peer: A2aPeer) -> str:
    _, lines = await peer.stream("stream", {"message": peer.message()})
    kinds = [peer.payload(line) for line in lines]
    if kinds[0][0] != "task":
        raise Untried("it answers with a message, not with a task")
    task = kinds[0][1]
    for _, found in kinds[1:]:
        same = found.get("taskId") == task["id"] and found.get("contextId") == task["contextId"]
        expect(same, found, "it names another")
    return f"{len(kinds) - 1} updates"


@clause(STREAMS, "the pieces of a stream make the text that the task has")
async def _(peer: A2aPeer) -> str:
    _, lines = await peer.stream("stream", {"message": peer.message()})
    texts: dict[str, str] = {}
    for kind, found in map(peer.payload, lines):
        if kind == "artifact-update":
            artifact = found.get("artifact") or {}
            text = "".join(str(part.get("text", "")) for part in artifact.get("parts") or [])
            name = str(artifact.get("artifactId"))
            texts[name] = texts.get(name, "") + text if found.get("append") else text
    kind, task = peer.payload(lines[0])
    name = str(task.get("id") if kind == "task" else task.get("taskId"))
    held = (await peer.call("get", {"id": name})).get("result") or {}
    stored = {str(each.get("artifactId")): text_of({"artifacts": [each]}) for each in held.get("artifacts") or []}
    if not texts and not stored:
        raise Untried("its tasks have no artifacts")
    expect(stored == texts, texts, f"the task has {shown(stored)}")
    return shown(texts)


@clause(STREAMS, "a subscription to a task that does not exist is refused with -32001")
async def _(peer: A2aPeer) -> str:
    _, lines = await peer.stream("subscribe", {"id": "no-such-task"})
    return refusal(lines[0], TASK_NOT_FOUND)


@clause(RPC, "an unknown method is refused with -32601")
async def _(peer: A2aPeer) -> str:
    return refusal(await peer.rpc("conform/noSuchMethod", {}), -32601)


@clause(RPC, "a body that is no JSON is refused with -32700, and one that is no request with -32600")
async def _(peer: A2aPeer) -> str:
    refusal(_object((await peer.ask("POST", peer.url, b"{oh no"))[1]), -32700)
    return refusal(_object((await peer.ask("POST", peer.url, b'{"jsonrpc":"2.0","id":1}'))[1]), -32600)


@clause(RPC, "a response has the id of its request, a string or a number, also when it is an error")
async def _(peer: A2aPeer) -> str:
    for ident in ("an-id", 7):
        for params in ({"message": peer.message()}, {}):
            line = await peer.rpc(peer.method("send"), params, ident)
            expect(line.get("id") == ident and type(line.get("id")) is type(ident), line, f"it is not {ident!r}")
    return "both"


@clause(RPC, "a version that is not spoken is refused with -32009")
async def _(peer: A2aPeer) -> str:
    if not peer.current:
        raise Untried("it speaks 0.3")
    line = await peer.rpc(peer.method("get"), {"id": "x"}, A2A_Version="99.0")
    return refusal(line, -32009)


@clause(RPC, "without the capability, a webhook is refused with -32003")
async def _(peer: A2aPeer) -> str:
    if (peer.card.get("capabilities") or {}).get("pushNotifications") is True:
        raise Untried("its card declares push notifications")
    if not peer.current:
        raise Untried("it speaks 0.3")
    task = await peer.send()
    params = {"taskId": task["id"], "url": "https://hooks.example/"}
    return refusal(await peer.rpc("CreateTaskPushNotificationConfig", params), PUSH_NOT_SUPPORTED)

"""Right programs of other vendors in the test's own process, each of which can be spoiled by a rule of `spoiled.py`."""

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from tests.conform import spoiled
from treadle.agent.providers.script import ErrorLine
from treadle.conform.kit import ANSWER, PLAIN, Candidate, Once
from treadle.conform.lines import LinePeer

Answering = Callable[["Program", str, dict[str, Any]], dict[str, Any] | None]
"""Answers a call of a method with its result, or None for later; raises Refused."""


class Refused(Exception):
    def __init__(self, code: int) -> None:
        self.error = {"code": code, "message": "refused"}


class Program:
    """The process and the model of a program that speaks JSON-RPC in lines."""

    def __init__(self, answer: Answering, rule: dict[str, Any], cwd: str, script: str, fails: bool) -> None:
        self.stdio = self
        self.cwd = cwd
        self.script = script
        self.fails = fails
        self.asked: list[Any] = []
        self.held: Any = None
        """The id of a request that is answered later."""
        self.state: dict[str, Any] = {}
        self._answer = answer
        self._rule = rule
        self._over = False
        self._rest = b""
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        if data.startswith(b"Content-Length"):
            data = data.partition(b"\r\n\r\n")[2] + b"\n"
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._over and (given := spoiled.given(self._rule, line)):
                self._take(given)

    def _take(self, line: bytes) -> None:
        asked = spoiled.parsed(line)
        if not isinstance(asked, dict):
            return self.say(id=None, error={"code": -32700, "message": "no JSON"})
        if "method" not in asked:
            return
        try:
            found = self._answer(self, asked["method"], asked.get("params") or {})
            if found is not None and "id" in asked:
                self.say(id=asked["id"], result=found)
            elif "id" in asked:
                self.held = asked["id"]
        except Refused as refused:
            if "id" in asked:
                self.say(id=asked["id"], error=refused.error)

    def say(self, **fields: Any) -> None:
        self._print({"jsonrpc": "2.0", **fields})

    def _print(self, line: dict[str, Any]) -> None:
        text, ends = spoiled.said(self._rule, json.dumps(line).encode() + b"\n")
        if text:
            self._lines.put_nowait(text)
        if ends:
            self.close_write()

    async def read(self) -> bytes:
        return await self._lines.get()

    def close_write(self) -> None:
        self._over = True
        self._lines.put_nowait(b"")

    async def wait(self) -> int:
        return int(self._rule.get("code", 0))

    def signal(self, signum: int) -> None:
        self.close_write()

    async def last_words(self) -> str:
        return ""

    async def arrived(self, number: int) -> None:
        assert len(self.asked) >= number


class Worker(Program):
    """The process and the model of a worker."""

    def _take(self, line: bytes) -> None:
        asked = spoiled.parsed(line)
        match asked:
            case {"type": "init", "id": str(ident), "config": dict(config)}:
                self._opened(ident, config, asked.get("protocol_version", "0.2.0"))
            case {"type": "send", "id": str(ident), "message": str(message)} if self.state:
                self._sent(ident, message)
            case {"type": "status", "id": str(ident)}:
                fields = {"model": "m", "messages_count": 0, "session_id": "w", "active": False}
                self._print({"type": "status_ok", "id": ident, **fields})
            case {"type": "cancel", "target_id": target}:
                if target == self.held:
                    self._failed(target, "cancelled")
            case {"type": "shutdown", "id": str(ident)}:
                self._print({"type": "shutdown_ok", "id": ident})
                self.close_write()
            case _:
                ident = asked.get("id") if isinstance(asked, dict) else None
                self._failed(ident if isinstance(ident, str) else "", "protocol_error")

    def _opened(self, ident: str, config: dict[str, Any], version: str) -> None:
        error = {"code": "protocol_version_mismatch", "message": "no", "retryable": False}
        wrong = not version.startswith("0.")
        self.state = {"session_id": "w", **{name: config[name] for name in ("task_id", "worker_id") if name in config}}
        self.asks = {"tools": config["tools"]}
        line = {"type": "init_ok", "id": ident, "session_id": "w", "protocol_version": "0.2.0"}
        self._print({**line, "error": error} if wrong else line)

    def _failed(self, ident: str, code: str) -> None:
        error = {"code": code, "message": "no", "retryable": False}
        line = {
            "type": "result",
            "id": ident,
            "status": "error",
            "error": error,
            "tool_calls_made": [],
            "iterations": 0,
        }
        self._print({**line, **self.state})

    def _sent(self, ident: str, message: str) -> None:
        self.asked.append(SimpleNamespace(body={**self.asks, "messages": [{"content": message}]}))
        if self.fails:
            return self._failed(ident, "provider_error")
        always = 'delay = 600\ntimes = "always"' in self.script
        if always or "delay" in self.script and len(self.asked) == 1:
            self.held = ident
            self._events(ident, {"event": "heartbeat", "duration_ms": 200}, {"event": "heartbeat", "duration_ms": 400})
            return None
        reads = "read_file" in self.script
        calls = [{"event": name, "name": "read_file"} for name in ("tool_start", "tool_end")] if reads else []
        usage = {"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26}
        texts = [{"event": "content_delta", "text": text} for text in (ANSWER[:5], ANSWER[5:])]
        self._events(ident, *calls, *texts, {"event": "usage", **usage})
        made = [{"name": "read_file", "args": {"file_path": "no-such-file.txt"}}] if reads else []
        times = {"model_latency_ms": 5, "tool_latency_ms": 1, "total_latency_ms": 7}
        line = {"type": "result", "id": ident, "status": "ok", "response": ANSWER, "tool_calls_made": made}
        if "write_file" in self.asks["tools"] and "write_file" in self.script:
            open(os.path.join(self.cwd, "written.txt"), "w").close()
        self._print({**line, "iterations": 1, "usage": usage, **times, **self.state})

    def _events(self, ident: str, *events: dict[str, Any]) -> None:
        for number, event in enumerate(events):
            self._print({"type": "event", "event": event, "event_seq": number, "send_id": ident, **self.state})


def worker(rule: Mapping[str, Any] | None = None) -> "Inside":
    return replace(inside(mcp, rule), kind=Worker)


class Sidecar(Program):
    """The process and the model of a sidecar."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        levels = {"streaming": "native", "vision": {"restricted": {"reason": "small"}}, "tool_bash": "unsupported"}
        self.about = {"backend": {"id": "right"}, "capabilities": levels}
        self._print({"t": "hello", "contract_version": "abp/v0.1", "mode": "mapped", **self.about})

    def _take(self, line: bytes) -> None:
        match spoiled.parsed(line):
            case {"t": "run", "id": ident, "work_order": {"id": order}}:
                self.asked.append(ident)
                if "delay" in self.script:
                    self.held = ident, order
                else:
                    self._worked(ident, order, "failed" if "status = 400" in self.script else "complete")
            case {"t": "ping", "seq": number}:
                self._print({"t": "pong", "seq": number})
            case {"t": "cancel", "ref_id": ident} if self.held and self.held[0] == ident:
                self._worked(*self.held, "partial")

    def _worked(self, ident: str, order: str, outcome: str) -> None:
        now = "2024-01-01T00:00:00Z"
        events = [{"ts": now, "type": kind, "text": ANSWER} for kind in ("run_started", "assistant_message")]
        for event in events:
            self._print({"t": "event", "ref_id": ident, "event": event})
        meta = {"run_id": ident, "work_order_id": order, "contract_version": "abp/v0.1"}
        meta |= {"started_at": now, "finished_at": now, "duration_ms": 0}
        between = {"ts": now, "type": "warning"}
        receipt = {"meta": meta, "usage": {}, "trace": [events[0], between, events[1]], "artifacts": [], **self.about}
        receipt |= {"verification": {}, "outcome": outcome, "receipt_sha256": None, "usage_raw": "é"}
        text = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        receipt["receipt_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        self._print({"t": "final", "ref_id": ident, "receipt": receipt})


def sidecar(rule: Mapping[str, Any] | None = None) -> "Inside":
    return replace(inside(mcp, rule), kind=Sidecar)


class Inside(Candidate, frozen=True, kw_only=True):
    answer: Answering
    kind: type[Program] = Program
    rule: Mapping[str, Any] = {}

    @contextlib.asynccontextmanager
    async def started(
        self,
        script: str = PLAIN,
        *,
        arguments: Sequence[str] = (),
        faults: Sequence[ErrorLine] = (),
        env: Mapping[str, str] | None = None,
        repository: bool = False,
    ) -> AsyncIterator[LinePeer]:
        with tempfile.TemporaryDirectory() as directory:
            rule = json.loads(json.dumps(self.rule))
            program = cast(Any, self.kind(self.answer, rule, directory, script, bool(faults)))
            peer = LinePeer(program, directory, self.patience, self.watch)
            peer.model, peer.model_name = program, self.model
            yield peer


def inside(answer: Answering, rule: Mapping[str, Any] | None = None) -> Inside:
    return Inside(
        command=("inside",), answer=answer, rule=rule or {}, patience=0.2 if "ignore" in (rule or {}) else 60.0
    )


def mcp(program: Program, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    versions = ("2025-06-18", "2024-11-05")
    match method:
        case "initialize":
            version = params["protocolVersion"] if params["protocolVersion"] in versions else versions[0]
            about = {"name": "right", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "ping":
            return {}
        case "tools/list":
            schema = {"type": "object", "properties": {"path": {}}, "required": ["path"]}
            return {
                "tools": [{"name": "list", "inputSchema": {"type": "object"}}, {"name": "read", "inputSchema": schema}]
            }
        case "tools/call":
            raise Refused(-32602)
    raise Refused(-32601)


REQUIRED: dict[str, list[str]] = {
    "read_claims": [],
    "make_claim": ["surfaces", "task"],
    "release_claim": [],
    "read_capsules": [],
    "append_decision": ["title", "body"],
    "raise_conflict_pr": ["id", "title", "surfaces"],
}


def ledger(program: Program, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "heimdall-ledger-mcp", "version": "1.0.0"}
        program.state["client"] = params["clientInfo"]["name"]
        return {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        schemas = {name: {"type": "object", "required": needed} for name, needed in REQUIRED.items()}
        return {"tools": [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]}
    if method != "tools/call":
        raise Refused(-32601)
    found = _acted(program, params["name"], params["arguments"])
    if found is None:
        return {"isError": True, "content": [{"type": "text", "text": "no"}]}
    content = [{"type": "image"}, {"type": "text", "text": json.dumps(found)}]
    return {"content": content, "structuredContent": found}


def _acted(program: Program, tool: str, given: dict[str, Any]) -> dict[str, Any] | None:
    who = given.get("client_identity", program.state["client"])
    claims: dict[str, str] = program.state.setdefault("claims", {})
    place = os.path.join(program.cwd, ".planning", "ledger")
    os.makedirs(os.path.join(place, "conflicts"), exist_ok=True)
    if tool == "make_claim":
        if not given["surfaces"] or claims and who not in claims:
            return None
        claims[who] = given["surfaces"][0]
    elif tool == "release_claim":
        claims.pop(who, None)
    elif tool == "append_decision":
        with open(os.path.join(place, "decisions.md"), "a") as file:
            file.write(f"{given['title']} by x/{who}\n")
    elif tool == "raise_conflict_pr":
        open(os.path.join(place, "conflicts", "C-1.md"), "w").close()
    return {"haid": f"haid:x/{who}", "count": len(claims), "claims": list(claims.values()), "capsules": []}


def acp(program: Program, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    sessions: list[str] = program.state.setdefault("sessions", [])
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "right"}}
        case "session/new" if params.get("cwd"):
            sessions.append(f"s{len(sessions)}")
            return {"sessionId": sessions[-1]}
        case "session/prompt" if params.get("sessionId") in sessions and params.get("prompt"):
            return _prompted(program, params["sessionId"])
        case "session/cancel":
            if program.held is not None:
                program.say(id=program.held, result={"stopReason": "cancelled"})
            return None
    raise Refused(-32601 if method.startswith("conform/") else -32602)


def _prompted(program: Program, session: str) -> dict[str, Any] | None:
    program.asked.append(session)
    if "status = 400" in program.script:
        raise Refused(-32603)
    if len(program.asked) <= program.script.count("delay"):
        return None
    for text in (ANSWER[:5], ANSWER[5:]):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        program.say(method="session/update", params={"sessionId": session, "update": update})
    return {"stopReason": "end_turn"}


class Ran(Candidate, frozen=True, kw_only=True):
    """A right one-shot runner, with its output spoiled by a rule, which may also replace its `prompt`, `output` and
    `errors`. `requests` false: it never asks its model."""

    rule: Mapping[str, Any] = {}
    requests: bool = True

    async def once(
        self, arguments: Sequence[str], *, script: str = PLAIN, stdin: bytes = b"", interrupt: int | None = None
    ) -> Once:
        rule = json.loads(json.dumps(self.rule))
        form, prompt = arguments[-1], rule.get("prompt") or stdin.decode() or arguments[1]
        fails, asks = "status = 400" in script, self.requests and not arguments[1].startswith("/")
        code, errors, lines = int(fails or not asks), "it failed" if fails or not asks else "", [b""]
        if asks and interrupt is None and (not fails or form != "text"):
            lines = list(_printed(form, fails))
        output = rule.get("output", b"".join(spoiled.said(rule, line)[0] for line in lines if line).decode())
        requests = [{"messages": [prompt]}] if asks or rule.get("asks") else []
        return Once(code=rule.get("code", code), output=output, errors=rule.get("errors", errors), requests=requests)


def _printed(form: str, fails: bool) -> Iterator[bytes]:
    ending = {"type": "result", "session_id": "s", "subtype": "error" if fails else "success", "is_error": fails}
    ending["result"] = "" if fails else ANSWER
    if form == "text":
        yield ANSWER.encode() + b"\n"
        return
    if form == "stream-json" and not fails:
        for number, text in enumerate((ANSWER[:5], ANSWER[5:])):
            event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
            yield (
                json.dumps({"type": "stream_event", "uuid": f"u{number}", "session_id": "s", "event": event}).encode()
                + b"\n"
            )
    yield json.dumps(ending).encode() + b"\n"

"""Clauses for a headless worker: requests as JSON lines in, events and results out."""

import os
import signal
from typing import Any

from treadle.agent.providers.script import ErrorLine
from treadle.conform.kit import ANSWER, PLAIN, Candidate, Kit, Untried, asked, expect, integers, started
from treadle.conform.lines import LinePeer, shown

KIT = Kit(protocol="worker", specification="headless mode, protocol 0.2", clauses=[])
clause = KIT.opening(started)
whole_clause = KIT.clause

LIFECYCLE, SENDING, TOOLS, CANCELLING = "Lifecycle", "send and its events", "Tools", "cancel"
REFUSING, LIMITS = "Error envelope", "Framing and limits"
SLOW = '[[reply]]\ntext = "Slow."\ndelay = 600\ntimes = "always"\n'
READS = """
[[reply]]
usage = { input = 20, output = 6 }
[[reply.call]]
name = "read_file"
arguments = { file_path = "no-such-file.txt" }
"""
WRITES = """
[[reply]]
[[reply.call]]
name = "write_file"
arguments = { file_path = "written.txt", content = "x" }
"""
WHOLE = ("prompt_tokens", "completion_tokens", "total_tokens")
LATENCIES = ("model_latency_ms", "tool_latency_ms", "total_latency_ms")


def init(peer: LinePeer, version: str | None = "0.2.0", **config: Any) -> dict[str, Any]:
    given = {"model": peer.model_name, "system_prompt": "Be brief.", "tools": ["read_file"], **config}
    found: dict[str, Any] = {"type": "init", "id": "i1", "config": given}
    return found if version is None else {**found, "protocol_version": version}


def send(message: str = "Hello.", ident: str = "s1") -> dict[str, Any]:
    return {"type": "send", "id": ident, "message": message}


SHUTDOWN = {"type": "shutdown", "id": "x1"}


async def opened(peer: LinePeer, **config: Any) -> dict[str, Any]:
    await peer.say(init(peer, **config))
    line = await peer.hear("init_ok")
    expect(line.get("type") == "init_ok" and not line.get("error"), line, "the init was not answered by init_ok")
    return line


async def result(peer: LinePeer, ident: str = "s1") -> dict[str, Any]:
    line = await peer.until(lambda line: line.get("type") != "event", f"the result of {ident}")
    expect(line.get("type") == "result", line, "after the events came no result")
    expect(line.get("id") == ident, line, f"the result is not that of {ident}")
    return line


async def answered(peer: LinePeer) -> dict[str, Any]:
    """A result with an answer of the model; the clause is not tried on a worker that has none to ask."""
    await opened(peer)
    await peer.say(send())
    line = await result(peer)
    if line.get("status") != "ok":
        raise Untried(f"it did not get an answer from the model that it was pointed at: {shown(line.get('error'))}")
    return line


def events(peer: LinePeer, name: str = "") -> list[dict[str, Any]]:
    """The payloads of the events so far."""
    found = [
        line["event"] for line in peer.lines if line.get("type") == "event" and isinstance(line.get("event"), dict)
    ]
    return [event for event in found if not name or event.get("event") == name]


def refused(line: dict[str, Any], code: str, ident: str | None = None) -> str:
    expect(
        line.get("type") == "result" and line.get("status") == "error", line, "it was not refused by an error result"
    )
    error = line.get("error")
    expect(isinstance(error, dict) and error.get("code") == code, line, f"the error's code is not {code}")
    expect(ident is None or line.get("id") == ident, line, f"the result is not that of {ident}")
    return shown(error)


@clause(LIFECYCLE, "init is answered by one init_ok with its id, a session_id and a protocol_version of major 0")
async def _(peer: LinePeer) -> str:
    line = await opened(peer)
    expect(line.get("id") == "i1", line, "init_ok has another id")
    expect(isinstance(line.get("session_id"), str) and line["session_id"] != "", line, "it has no session_id")
    version = line.get("protocol_version")
    expect(isinstance(version, str) and version.startswith("0."), line, "its protocol_version is not 0.x")
    more = await peer.quiet(0.3)
    expect(more is None, more, "a second line followed init_ok")
    return f"protocol {version}"


@clause(LIFECYCLE, "an init without protocol_version is accepted")
async def _(peer: LinePeer) -> str:
    await peer.say(init(peer, None))
    line = await peer.hear("init_ok")
    expect(line.get("type") == "init_ok" and not line.get("error"), line, "it was refused")
    return shown(line.get("protocol_version"))


@clause(LIFECYCLE, "an init of another major version is refused with protocol_version_mismatch, not retryable")
async def _(peer: LinePeer) -> str:
    await peer.say(init(peer, "99.0.0"))
    line = await peer.hear("a refusal")
    error = line.get("error")
    expect(line.get("id") == "i1" and isinstance(error, dict), line, "it was not refused")
    assert isinstance(error, dict)
    expect(error.get("code") == "protocol_version_mismatch", line, "the code is not protocol_version_mismatch")
    expect(error.get("retryable") is False, line, "the error is not marked as not retryable")
    return f"refused in {line.get('type')}"


@clause(LIFECYCLE, "unknown fields in requests are ignored")
async def _(peer: LinePeer) -> str:
    await peer.say({**init(peer, x_later={"deep": [1, None]}), "x_later": True})
    line = await peer.hear("init_ok")
    expect(line.get("type") == "init_ok" and not line.get("error"), line, "it was refused")
    return "accepted"


@clause(LIFECYCLE, "status is answered by status_ok with model, messages_count, session_id and active false")
async def _(peer: LinePeer) -> str:
    session = (await opened(peer))["session_id"]
    await peer.say({"type": "status", "id": "t1"})
    line = await peer.hear("status_ok")
    expect(line.get("type") == "status_ok" and line.get("id") == "t1", line, "it was not answered by status_ok")
    expect(line.get("session_id") == session, line, f"the session is not {session}")
    expect(isinstance(line.get("model"), str) and integers(line, ("messages_count",)), line, "a field is missing")
    expect(type(line.get("messages_count")) is int and line.get("active") is False, line, "a field is wrong")
    return shown(line)


@clause(LIFECYCLE, "shutdown is answered by shutdown_ok, nothing follows, and the process exits with 0")
async def _(peer: LinePeer) -> str:
    await opened(peer)
    await peer.say(SHUTDOWN)
    line = await peer.hear("shutdown_ok")
    expect((line.get("type"), line.get("id")) == ("shutdown_ok", "x1"), line, "it was not answered by shutdown_ok")
    count, code = len(peer.lines), await peer.end()
    expect(len(peer.lines) == count, peer.lines[-1], "a line followed shutdown_ok")
    expect(code == 0, code, "the exit code is not 0")
    return "exit code 0"


@clause(LIFECYCLE, "the process ends when its input ends")
async def _(peer: LinePeer) -> str:
    await opened(peer)
    peer.close_input()
    return f"exit code {await peer.end()}"


@clause(SENDING, "a send ends with one result: its id, status ok or error, tool_calls_made, iterations")
async def _(peer: LinePeer) -> str:
    await opened(peer)
    await peer.say(send())
    line = await result(peer)
    expect(line.get("status") in ("ok", "error"), line, "the status is neither ok nor error")
    expect(isinstance(line.get("tool_calls_made"), list), line, "tool_calls_made is no list")
    expect(type(line.get("iterations")) is int, line, "iterations is no whole number")
    more = await peer.quiet(0.3)
    expect(more is None, more, "a line followed the result")
    return f"status {line['status']}"


@clause(SENDING, "the result of an answered send has the model's text as its response")
async def _(peer: LinePeer) -> str:
    line = await answered(peer)
    expect(line.get("response") == ANSWER, line, f"the response is not {ANSWER!r}")
    return shown(line["response"])


@clause(SENDING, "the text is streamed as content_delta events that make up the response")
async def _(peer: LinePeer) -> str:
    line = await answered(peer)
    streamed = "".join(str(event.get("text")) for event in events(peer, "content_delta"))
    expect(streamed == line.get("response"), line, f"{streamed!r} was streamed, and is not the response")
    return f"{len(events(peer, 'content_delta'))} events"


@clause(SENDING, "events are numbered from 0 without gaps and carry the send's id, in each send anew")
async def _(peer: LinePeer) -> str:
    await answered(peer)
    await peer.say(send("Again.", "s2"))
    await result(peer, "s2")
    lines = [line for line in peer.lines if line.get("type") == "event"]
    for ident in ("s1", "s2"):
        numbers = [line.get("event_seq") for line in lines if line.get("send_id") == ident]
        expect(numbers == list(range(len(numbers))), numbers, f"the events of {ident} are numbered wrongly")
    expect({line.get("send_id") for line in lines} <= {"s1", "s2"}, lines[0], "an event belongs to no send")
    return f"{len(lines)} events"


@clause(SENDING, "usage has prompt_tokens, completion_tokens and total_tokens, whole numbers that add up")
async def _(peer: LinePeer) -> str:
    line = await answered(peer)
    found = [*events(peer, "usage"), *filter(None, [line.get("usage")])]
    if not found:
        raise Untried("it reports no usage")
    for usage in found:
        expect(all(name in usage for name in WHOLE) and integers(usage, WHOLE), usage, "a count is wrong or missing")
        expect(usage[WHOLE[0]] + usage[WHOLE[1]] == usage[WHOLE[2]], usage, "the counts do not add up")
    return shown(found[0])


@clause(SENDING, "latencies are whole milliseconds, and the whole is not less than a part")
async def _(peer: LinePeer) -> str:
    line = await answered(peer)
    found = {name: line[name] for name in LATENCIES if line.get(name) is not None}
    if not found:
        raise Untried("it reports no latencies")
    expect(integers(line, LATENCIES), found, "a latency is no whole number")
    expect(max(found.values()) == found.get("total_latency_ms", 0), found, "a part takes longer than the whole")
    return shown(found)


@clause(SENDING, "task_id and worker_id of the init are echoed on events and results")
async def _(peer: LinePeer) -> str:
    session = (await opened(peer, task_id="task-1", worker_id="worker-1"))["session_id"]
    await peer.say(send())
    await result(peer)
    for line in peer.lines[1:]:
        found = (line.get("task_id"), line.get("worker_id"), line.get("session_id"))
        expect(found == ("task-1", "worker-1", session), line, "an id is not echoed")
    return f"on {len(peer.lines) - 1} lines"


@clause(SENDING, "a message arrives at the model as it was sent, separators and emoji included")
async def _(peer: LinePeer) -> str:
    await answered(peer)
    message = 'one\u2028two\u0085three \U0001f9f5 \\n "quoted"\nfour'
    await peer.say(send(message, "s2"))
    await result(peer, "s2")
    expect(_asked_with(peer, message), message, "the model was asked with other words")
    return "unchanged"


@clause(LIMITS, "a message of one megabyte arrives at the model whole")
async def _(peer: LinePeer) -> str:
    await answered(peer)
    message = "long " * 200_000 + "end"
    await peer.say(send(message, "s2"))
    await result(peer, "s2")
    expect(_asked_with(peer, message), len(message), "the model was not asked with the whole message")
    return f"{len(message)} characters"


@clause(
    SENDING,
    "a heartbeat comes while the model is slow, with the milliseconds since the send began",
    SLOW,
    env={"HEDDLE_HEARTBEAT_INTERVAL": "200"},
)
async def _(peer: LinePeer) -> str:
    await opened(peer)
    await peer.say(send())
    beats = [await peer.until(_is_heartbeat, "a heartbeat") for _ in range(2)]
    first, second = (line["event"].get("duration_ms") for line in beats)
    expect(type(first) is int and type(second) is int, beats[0], "duration_ms is no whole number")
    expect(first < second, beats[1], "duration_ms does not grow")
    return f"after {first} and {second} ms"


@clause(
    TOOLS,
    "a tool's start and end are events with its name, and it is in tool_calls_made with its arguments",
    READS + PLAIN,
)
async def _(peer: LinePeer) -> str:
    line = await answered(peer)
    names = [(event["event"], event.get("name")) for event in events(peer) if event["event"].startswith("tool_")]
    expect(names == [("tool_start", "read_file"), ("tool_end", "read_file")], names, "the events are others")
    calls = [(call.get("name"), call.get("args")) for call in line["tool_calls_made"]]
    expect(calls == [("read_file", {"file_path": "no-such-file.txt"})], calls, "tool_calls_made differs")
    return shown(calls)


@clause(TOOLS, "a tool that the init did not enable is neither offered to the model nor run", WRITES + PLAIN)
async def _(peer: LinePeer) -> str:
    await answered(peer)
    offered = shown(peer.model.asked[0].body.get("tools"))
    expect("write_file" not in offered, offered, "the model was offered it")
    expect(not os.path.exists(os.path.join(peer.cwd, "written.txt")), "written.txt", "it wrote a file all the same")
    return "neither"


@clause(CANCELLING, "cancel ends a running send: its result is an error with code cancelled, not retryable", SLOW)
async def _(peer: LinePeer) -> str:
    await _running(peer)
    await peer.say({"type": "cancel", "id": "c1", "target_id": "s1"})
    line = await result(peer)
    seen = refused(line, "cancelled")
    expect(line["error"].get("retryable") is False, line, "the error is not marked as not retryable")
    return seen


@clause(CANCELLING, "cancel itself has no reply", SLOW)
async def _(peer: LinePeer) -> str:
    await _running(peer)
    await peer.say({"type": "cancel", "id": "c1", "target_id": "s1"})
    await result(peer)
    await peer.say({"type": "status", "id": "t1"})
    line = await peer.hear("status_ok")
    expect(line.get("id") == "t1", line, "another line came before the answer to the next request")
    return "none"


@clause(CANCELLING, "a cancel of what does not run changes nothing")
async def _(peer: LinePeer) -> str:
    await opened(peer)
    await peer.say({"type": "cancel", "id": "c1", "target_id": "none"}, send())
    line = await result(peer)
    expect((line.get("error") or {}).get("code") != "cancelled", line, "the next send was cancelled")
    return f"the next send ended {line.get('status')}"


@clause(CANCELLING, "after a cancelled send the session goes on", '[[reply]]\ntext = "Slow."\ndelay = 600\n' + PLAIN)
async def _(peer: LinePeer) -> str:
    await _running(peer)
    await peer.say({"type": "cancel", "id": "c1", "target_id": "s1"})
    await result(peer)
    await peer.say(send("Again.", "s2"))
    line = await result(peer, "s2")
    expect(line.get("status") == "ok", line, "the next send failed")
    return "the next send ended ok"


@whole_clause(REFUSING, "a failing model is an error result with code provider_error and a whole envelope")
async def _(candidate: Candidate) -> str:
    down = (ErrorLine(status=400, message="the model is out of order"),) * 20
    async with candidate.started(faults=down) as peer:
        await opened(peer)
        await peer.say(send())
        line = await result(peer)
        seen = refused(line, "provider_error")
        expect(isinstance(line["error"].get("message"), str), line, "the error has no message")
        expect(isinstance(line["error"].get("retryable"), bool), line, "retryable is neither true nor false")
        expect(line.get("response") is None, line, "an error result has a response")
        return seen


BAD_LINES = {
    "a line that is no JSON": b"{oh no\n",
    "a line that is JSON and no object": b"[1, 2]\n",
    "a request without a type": b'{"id":"q1"}\n',
    "a request of an unknown type": b'{"type":"dance","id":"q1"}\n',
    "a send without an id": b'{"type":"send","message":"hi"}\n',
    "a send whose id is a number": b'{"type":"send","id":7,"message":"hi"}\n',
    "a send without a message": b'{"type":"send","id":"q1"}\n',
    "a send whose message is an object": b'{"type":"send","id":"q1","message":{}}\n',
}


def _add_refusal(what: str, line: bytes) -> None:
    @clause(REFUSING, f"{what} is refused with protocol_error, and the worker goes on")
    async def _(peer: LinePeer) -> str:
        await opened(peer)
        await peer.say(line)
        seen = refused(await peer.hear("a refusal"), "protocol_error")
        await peer.say({"type": "status", "id": "t1"})
        after = await peer.hear("status_ok")
        expect(after.get("type") == "status_ok", after, "the next request was not answered")
        return seen


for _what, _bytes in BAD_LINES.items():
    _add_refusal(_what, _bytes)


@clause(REFUSING, "a send before init is refused with protocol_error and its own id")
async def _(peer: LinePeer) -> str:
    await peer.say(send())
    seen = refused(await peer.hear("a refusal"), "protocol_error", "s1")
    await opened(peer)
    return seen


@clause(LIMITS, "requests that are written at once are answered in order, the shutdown last")
async def _(peer: LinePeer) -> str:
    await peer.say(init(peer), send(), {"type": "status", "id": "t1"}, SHUTDOWN)
    code = await peer.end()
    answers = [(line.get("type"), line.get("id")) for line in peer.lines if line.get("type") != "event"]
    wanted = [("init_ok", "i1"), ("result", "s1"), ("status_ok", "t1"), ("shutdown_ok", "x1")]
    status_first = [wanted[0], wanted[2], wanted[1], wanted[3]]
    expect(answers in (wanted, status_first), answers, "the answers came in another order")
    return f"exit code {code}"


@clause(LIMITS, "a request that arrives byte by byte is one request")
async def _(peer: LinePeer) -> str:
    await opened(peer)
    for byte in b'{"type":"status","id":"t\\u00e91"}\n':
        await peer.write(bytes([byte]))
    line = await peer.hear("status_ok")
    expect(line.get("type") == "status_ok" and line.get("id") == "té1", line, "it was not answered")
    return "answered"


@clause(LIMITS, "SIGTERM ends the process during a send", SLOW)
async def _(peer: LinePeer) -> str:
    await _running(peer)
    peer.signal(signal.SIGTERM)
    return f"exit code {await peer.end()}"


async def _running(peer: LinePeer) -> None:
    """A send that has asked the model, which does not answer."""
    await opened(peer)
    await peer.say(send())
    await asked(peer)


def _is_heartbeat(line: dict[str, Any]) -> bool:
    return isinstance(line.get("event"), dict) and line["event"].get("event") == "heartbeat"


def _asked_with(peer: LinePeer, message: str) -> bool:
    """Whether the model's last request holds this text, in whatever shape the service wants it."""
    return any(message in text for text in _texts(peer.model.asked[-1].body))


def _texts(body: Any) -> list[str]:
    if isinstance(body, str):
        return [body]
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return [text for part in inner for text in _texts(part)]

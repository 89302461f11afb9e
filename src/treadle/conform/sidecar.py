"""Clauses for a sidecar: it says hello, is given runs, streams events and ends each with a receipt or a failure."""

import hashlib
import json
import re
import signal
import uuid
from datetime import datetime
from typing import Any

from treadle.conform.kit import Broken, Candidate, Kit, Untried, asked, expect, integers, started
from treadle.conform.lines import LinePeer, shown

KIT = Kit(protocol="sidecar", specification="sidecar protocol, contract abp/v0.1", clauses=[])
clause = KIT.opening(started)
whole_clause = KIT.clause

HELLO, RUN, RECEIPT, HEARTBEAT, LIMITS = (
    "hello",
    "run and its events",
    "Receipt",
    "ping and cancel",
    "Framing and limits",
)
SLOW = '[[reply]]\ntext = "Slow."\ndelay = 600\ntimes = "always"\n'
EVENTS = frozenset(
    (
        *("run_started", "assistant_delta", "assistant_message", "tool_call", "tool_result"),
        *("file_changed", "command_executed", "warning", "error", "run_completed"),
    )
)
ORDER = "00000000-0000-4000-8000-000000000002"
LEVELS = ("native", "emulated", "unsupported")


def run(peer: LinePeer, ident: str, **more: Any) -> dict[str, Any]:
    tools: dict[str, Any] = {"allowed_tools": [], "disallowed_tools": [], "require_approval_for": []}
    files: dict[str, Any] = {"deny_read": [], "deny_write": []}
    network: dict[str, Any] = {"allow_network": [], "deny_network": []}
    config: dict[str, Any] = {"model": peer.model_name, "vendor": {}, "env": {}, "max_budget_usd": None, "max_turns": 4}
    order = {
        "id": ORDER,
        "task": "Say hello.",
        "lane": "patch_first",
        "workspace": {"root": ".", "mode": "pass_through", "include": [], "exclude": []},
        "context": {"files": [], "snippets": []},
        "policy": {**tools, **files, **network},
        "requirements": {"required": []},
        "config": config,
    }
    return {"t": "run", "id": ident, "work_order": {**order, **more}}


async def greeted(peer: LinePeer) -> dict[str, Any]:
    line = await peer.hear("hello")
    expect(line.get("t") == "hello", line, "the first line is no hello")
    return line


async def begun(peer: LinePeer) -> str:
    """The id of a run that it was given."""
    ident = str(uuid.uuid4())
    await greeted(peer)
    await peer.say(run(peer, ident))
    return ident


async def ended(peer: LinePeer, ident: str) -> dict[str, Any]:
    """The final or fatal of this run."""
    line = await peer.until(lambda line: line.get("t") in ("final", "fatal"), "final or fatal")
    expect(line.get("ref_id", ident) == ident, line, f"its ref_id is not {ident}")
    return line


async def done(peer: LinePeer) -> dict[str, Any]:
    """The receipt of a run that succeeded; the clause is not tried on a sidecar that cannot reach a model."""
    ident = await begun(peer)
    line = await ended(peer, ident)
    if line["t"] == "fatal":
        raise Untried(f"the run ended with fatal: {shown(line.get('error'))}")
    expect(isinstance(line.get("receipt"), dict), line, "final has no receipt")
    receipt: dict[str, Any] = line["receipt"]
    return {**receipt, "_run": ident}


@clause(HELLO, "the first line is hello, before anything is read")
async def _(peer: LinePeer) -> str:
    return shown((await greeted(peer)).get("backend"))


@clause(HELLO, "hello has a contract_version of the form abp/vMAJOR.MINOR, of major 0")
async def _(peer: LinePeer) -> str:
    line = await greeted(peer)
    version = str(line.get("contract_version"))
    expect(re.fullmatch(r"abp/v0\.\d+", version) is not None, line, "the version is another")
    return version


@clause(HELLO, "hello names its backend by an id")
async def _(peer: LinePeer) -> str:
    line = await greeted(peer)
    backend = line.get("backend")
    expect(isinstance(backend, dict) and isinstance(backend.get("id"), str), line, "it has no backend with an id")
    return shown(backend)


@clause(HELLO, "capabilities is a map from names to native, emulated, unsupported or restricted with a reason")
async def _(peer: LinePeer) -> str:
    line = await greeted(peer)
    found = line.get("capabilities")
    expect(isinstance(found, dict), line, "capabilities is no map")
    assert isinstance(found, dict)
    wrong = {name: level for name, level in found.items() if not _is_level(level)}
    expect(not wrong, wrong, "a level is unknown")
    return f"{len(found)} capabilities"


@clause(HELLO, "mode, if it is there, is passthrough or mapped")
async def _(peer: LinePeer) -> str:
    line = await greeted(peer)
    expect(line.get("mode", "mapped") in ("passthrough", "mapped"), line, "the mode is another")
    return str(line.get("mode", "absent: mapped"))


@clause(RUN, "a run ends with exactly one final or fatal")
async def _(peer: LinePeer) -> str:
    ident = await begun(peer)
    line = await ended(peer, ident)
    peer.close_input()
    await peer.end()
    found = [one for one in peer.lines if one.get("t") in ("final", "fatal")]
    expect(len(found) == 1, found[-1], "a second one followed")
    return str(line["t"])


@clause(RUN, "every event and the final carry the run's id as ref_id")
async def _(peer: LinePeer) -> str:
    ident = (await done(peer))["_run"]
    lines = [line for line in peer.lines if line.get("t") in ("event", "final")]
    for line in lines:
        expect(line.get("ref_id") == ident, line, "the ref_id is another, or missing")
    return f"{len(lines)} lines"


@clause(RUN, "every event has a time with its zone in ts, and a known type")
async def _(peer: LinePeer) -> str:
    await done(peer)
    lines = [line for line in peer.lines if line.get("t") == "event"]
    for line in lines:
        event = line.get("event")
        expect(isinstance(event, dict) and event.get("type") in EVENTS, line, "the type is unknown")
        assert isinstance(event, dict)
        expect(_time(event.get("ts")) is not None, line, "ts is no time with a zone")
    return f"{len(lines)} events"


@clause(RUN, "the answer is an assistant_message or assistant_delta with its text")
async def _(peer: LinePeer) -> str:
    await done(peer)
    events = [line["event"] for line in peer.lines if line.get("t") == "event"]
    messages = [event for event in events if event.get("type") in ("assistant_message", "assistant_delta")]
    expect(bool(messages), events[-1:], "there is none")
    expect(all(isinstance(event.get("text"), str) for event in messages), messages[0], "it has no text")
    return shown("".join(event["text"] for event in messages))


@clause(RUN, "no line that is not hello comes before the first run")
async def _(peer: LinePeer) -> str:
    await greeted(peer)
    line = await peer.quiet(0.5)
    expect(line is None, line, "a line came that no one asked for")
    return "quiet"


@clause(
    RUN,
    "when the model fails, the run ends with fatal, or with a receipt whose outcome is not complete",
    "[[reply]]\n[reply.error]\nstatus = 400\n",
)
async def _(peer: LinePeer) -> str:
    ident = await begun(peer)
    line = await ended(peer, ident)
    if not peer.model.asked:
        raise Untried("it did not ask the model that it was pointed at")
    outcome = (line.get("receipt") or {}).get("outcome")
    expect(line["t"] == "fatal" or outcome in ("partial", "failed"), line, "it says that all is well")
    return f"{line['t']}, {outcome}"


@clause(RECEIPT, "the receipt's meta names this run, its order and the contract, and its times are in order")
async def _(peer: LinePeer) -> str:
    receipt = await done(peer)
    meta = receipt.get("meta") or {}
    expect((meta.get("run_id"), meta.get("work_order_id")) == (receipt["_run"], ORDER), meta, "an id is another")
    expect(str(meta.get("contract_version")).startswith("abp/v0."), meta, "the contract is another")
    began, finished = _time(meta.get("started_at")), _time(meta.get("finished_at"))
    expect(began is not None and finished is not None, meta, "a time is missing or has no zone")
    assert began is not None and finished is not None
    expect(began <= finished, meta, "it ended before it began")
    expect(type(meta.get("duration_ms")) is int and integers(meta, ("duration_ms",)), meta, "duration_ms is wrong")
    return shown(meta)


@clause(RECEIPT, "the receipt's outcome is complete, partial or failed")
async def _(peer: LinePeer) -> str:
    receipt = await done(peer)
    expect(receipt.get("outcome") in ("complete", "partial", "failed"), receipt.get("outcome"), "it is another")
    return str(receipt["outcome"])


@clause(RECEIPT, "the receipt has backend, capabilities, usage, trace, artifacts and verification")
async def _(peer: LinePeer) -> str:
    receipt = await done(peer)
    kinds = {
        "backend": dict,
        "capabilities": dict,
        "usage": dict,
        "verification": dict,
        "trace": list,
        "artifacts": list,
    }
    wrong = [name for name, kind in kinds.items() if not isinstance(receipt.get(name), kind)]
    expect(not wrong, wrong, "these are missing or have another type")
    return "all there"


@clause(RECEIPT, "the trace holds the events that were streamed")
async def _(peer: LinePeer) -> str:
    receipt = await done(peer)
    streamed = [line["event"].get("type") for line in peer.lines if line.get("t") == "event"]
    traced = [event.get("type") for event in receipt.get("trace") or [] if isinstance(event, dict)]
    expect(_is_part(streamed, traced), traced, f"streamed were {streamed}; the trace has")
    return f"{len(traced)} events"


@clause(RECEIPT, "receipt_sha256, if it is there, is the SHA-256 of the receipt in canonical JSON without it")
async def _(peer: LinePeer) -> str:
    receipt = await done(peer)
    receipt.pop("_run")
    stated = receipt.get("receipt_sha256")
    if stated is None:
        raise Untried("the receipt has no hash; the control plane seals it")
    text = json.dumps({**receipt, "receipt_sha256": None}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expect(hashlib.sha256(text.encode()).hexdigest() == stated, stated, "it is another")
    return shown(stated)


@clause(HEARTBEAT, "ping is answered by pong with the same seq")
async def _(peer: LinePeer) -> str:
    await greeted(peer)
    await peer.say({"t": "ping", "seq": 7})
    line = await peer.hear("pong")
    expect((line.get("t"), line.get("seq")) == ("pong", 7), line, "no pong came")
    return shown(line)


@clause(HEARTBEAT, "ping is answered while a run is under way", SLOW)
async def _(peer: LinePeer) -> str:
    await begun(peer)
    await asked(peer)
    await peer.say({"t": "ping", "seq": 8})
    line = await peer.until(lambda line: line.get("t") != "event", "pong")
    expect((line.get("t"), line.get("seq")) == ("pong", 8), line, "no pong came during the run")
    return shown(line)


@clause(HEARTBEAT, "cancel stops a run promptly: final with a receipt that is not complete, or fatal", SLOW)
async def _(peer: LinePeer) -> str:
    ident = await begun(peer)
    await asked(peer)
    await peer.say({"t": "cancel", "ref_id": ident, "reason": "conformance"})
    line = await ended(peer, ident)
    outcome = (line.get("receipt") or {}).get("outcome")
    expect(outcome != "complete", line, "a cancelled run is called complete")
    return f"{line['t']}, {outcome}"


@whole_clause(HEARTBEAT, "a cancel of another run changes nothing")
async def _(candidate: Candidate) -> str:
    async with candidate.started() as peer:
        usual = (await done(peer)).get("outcome")
    async with candidate.started() as peer:
        await greeted(peer)
        ident = str(uuid.uuid4())
        await peer.say({"t": "cancel", "ref_id": str(uuid.uuid4()), "reason": "another"}, run(peer, ident))
        line = await ended(peer, ident)
        outcome = (line.get("receipt") or {}).get("outcome")
        expect(outcome == usual, line, f"the run was cut short: it ended {outcome}, not {usual}")
        return f"{line['t']}, {outcome}"


@whole_clause(LIMITS, "unknown fields in the run are ignored")
async def _(candidate: Candidate) -> str:
    async with candidate.started() as peer:
        ident = str(uuid.uuid4())
        await greeted(peer)
        await peer.say({**run(peer, ident), "x_later": {"deep": [1]}})
        line = await ended(peer, ident)
        if line["t"] == "fatal" and not peer.model.asked:
            await _fails_anyway(candidate, str(line.get("error")))
        return str(line["t"])


@clause(LIMITS, "a run that arrives byte by byte is one run")
async def _(peer: LinePeer) -> str:
    ident = str(uuid.uuid4())
    await greeted(peer)
    for byte in json.dumps(run(peer, ident)).encode() + b"\n":
        await peer.write(bytes([byte]))
    return str((await ended(peer, ident))["t"])


@clause(LIMITS, "the process ends when its input ends")
async def _(peer: LinePeer) -> str:
    await greeted(peer)
    peer.close_input()
    return f"exit code {await peer.end()}"


@clause(LIMITS, "the process exits with 0 after a run that succeeded")
async def _(peer: LinePeer) -> str:
    await done(peer)
    peer.close_input()
    code = await peer.end()
    expect(code == 0, code, "the exit code is another")
    return "exit code 0"


@clause(LIMITS, "SIGTERM ends the process during a run", SLOW)
async def _(peer: LinePeer) -> str:
    await begun(peer)
    await asked(peer)
    peer.signal(signal.SIGTERM)
    return f"exit code {await peer.end()}"


async def _fails_anyway(candidate: Candidate, error: str) -> None:
    """Whether the same run without the unknown field fails too: then that is not the reason."""
    async with candidate.started() as peer:
        ident = await begun(peer)
        if (await ended(peer, ident))["t"] == "final":
            raise Broken(f"with an unknown field the run fails: {error}")
    raise Untried(f"every run fails: {error}")


def _is_level(level: Any) -> bool:
    if isinstance(level, dict):
        inner = level.get("restricted")
        return isinstance(inner, dict) and isinstance(inner.get("reason"), str)
    return level in LEVELS


def _is_part(some: list[Any], whole: list[Any]) -> bool:
    """Whether these occur in this order; events between them are allowed."""
    rest = iter(whole)
    return all(one in rest for one in some)


def _time(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None

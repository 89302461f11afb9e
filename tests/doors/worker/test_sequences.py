"""Any sequence of requests, right or wrong, cut anywhere: the promises of the wire hold."""

import asyncio
import json
from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from tests.streams import pair
from treadle.doors.worker.door import Worker
from treadle.errors import ProviderError
from treadle.events import TextDelta, ToolEnded, ToolStarted, TurnEnded, Usage
from treadle.session import SessionSpec
from treadle.sessions.session import Turn

CONFIG = {"model": "m", "system_prompt": "", "tools": []}
MESSAGES = ("talk", "tool", "hang", "fail", "bug", "nothing")
BAD = (b"{", b"", b"[]", b"7", b'{"type":"status"}', b"\xff\xfe", b"x" * 300, b"[" * 5000)


class Session(ScriptedSession):
    """Does what the message says."""

    async def _turn(self, turn: Turn) -> TurnEnded:
        turn.iterations = 1
        self.emit(TextDelta(text=turn.prompt.text))
        match turn.prompt.text:
            case "tool":
                self.emit(ToolStarted(call="c", name="t", args={}))
                await asyncio.sleep(0)
                self.emit(ToolEnded(call="c", name="t", result="r"))
                self.emit(Usage(input_tokens=1))
            case "hang":
                await asyncio.Event().wait()
            case "fail":
                raise ProviderError("no")
            case "bug":
                raise KeyError("oops")
        return turn.ending("completed")


class Agent(ScriptedAgent):
    async def open(self, spec: SessionSpec) -> ScriptedSession:
        await asyncio.sleep(0)
        if spec.model == "refused":
            raise ProviderError("no such model")
        session = Session(spec, [])
        self.sessions.append(session)
        return session


steps = st.one_of(
    st.tuples(
        st.just("init"), st.sampled_from(["m", "m", "refused"]), st.sampled_from(["0.2.0", "0.5.0", "1.0.0", None])
    ),
    st.tuples(st.just("send"), st.sampled_from(MESSAGES)),
    st.tuples(st.just("cancel"), st.integers(0, 12)),
    st.tuples(st.just("status")),
    st.tuples(st.just("unknown")),
    st.tuples(st.just("ill-typed")),
    st.tuples(st.just("steer"), st.integers(0, 12)),
    st.tuples(st.just("answer"), st.integers(0, 12)),
    st.tuples(st.just("bad"), st.sampled_from(BAD)),
    st.tuples(st.just("wait")),
    st.tuples(st.just("shutdown")),
)


FIRST = ("init", "m", "0.2.0")
sequences = st.lists(steps, max_size=14) | st.lists(steps, max_size=14).map(lambda later: [FIRST, *later])


class Talk:
    """What was asked, and what must be true of the answer."""

    def __init__(self, **config: Any) -> None:
        self.config = {**CONFIG, **config}
        self.asked: dict[str, str] = {}
        self.sends: list[str] = []
        self.late: set[str] = set()
        """What was asked after a shutdown: it may be answered, or the worker has already ended."""
        self.bad = self.late_bad = 0
        self.ending = False

    def line(self, step: tuple[Any, ...]) -> bytes:
        kind = step[0]
        if kind == "bad":
            self.bad += not self.ending
            self.late_bad += self.ending
            return bytes(step[1])
        id = f"r{len(self.asked)}"
        self.asked[id] = kind
        if self.ending:
            self.late.add(id)
        self.ending |= kind == "shutdown"
        body: dict[str, Any] = {"type": kind, "id": id}
        match step:
            case ("init", model, version):
                body |= {
                    "protocol_version": version,
                    "config": {**self.config, "model": self.config["model"] if model == "m" else "refused"},
                }
            case ("send", message):
                body |= {"message": message}
                self.sends.append(id)
            case ("cancel" | "steer" | "answer", target):
                body |= {"target_id": f"r{target}", "message": "x", "request_id": "q", "decision": "allow"}
            case ("unknown",):
                body["type"] = "dance"
            case ("ill-typed",):
                body |= {"type": "send", "message": 5}
        return json.dumps(body).encode()

    def check(self, lines: list[Any]) -> None:
        answers = Counter(line["id"] for line in lines if line["type"] != "event")
        for id, kind in self.asked.items():
            wanted = 0 if kind == "cancel" else 1
            assert answers[id] == wanted or (id in self.late and answers[id] == 0), (
                f"{kind} {id}: {answers[id]} answers"
            )
        assert self.bad <= answers["unknown"] <= self.bad + self.late_bad
        self.check_events(lines)
        results = [line["id"] for line in lines if line["type"] == "result" and line["id"] in self.sends]
        assert results == [send for send in self.sends if send not in self.late or send in results]

    def check_events(self, lines: list[Any]) -> None:
        seen: dict[str, int] = defaultdict(int)
        done: set[str] = set()
        for line in lines:
            if line["type"] == "event":
                send = line["send_id"]
                assert send in self.sends and send not in done, f"an event outside its send: {line}"
                assert line["event_seq"] == seen[send]
                seen[send] += 1
            elif line["type"] == "result":
                done.add(line["id"])
                assert (line["status"] == "ok") == ("error" not in line)


async def converse(talk: Talk, sequence: list[tuple[Any, ...]], piece: int) -> list[Any]:
    client, server = pair()
    agent = Agent()
    worker = asyncio.create_task(Worker(agent, server, environ={}, warn=lambda text: None).run())
    output = asyncio.create_task(read_all(client))
    for step in sequence:
        if step[0] == "wait":
            for _ in range(20):
                await asyncio.sleep(0)
            continue
        data = talk.line(step) + b"\n"
        for at in range(0, len(data), piece):
            await client.write(data[at : at + piece])
    for send in talk.sends:  # so that what hangs ends
        await client.write(json.dumps({"type": "cancel", "id": "c", "target_id": send}).encode() + b"\n")
    client.close_write()
    assert await asyncio.wait_for(worker, 60) == 0
    assert all(session.closed for session in agent.sessions)
    server.close()
    return [json.loads(line) for line in (await output).splitlines()]


async def read_all(client: Any) -> bytes:
    parts = []
    while data := await client.read():
        parts.append(data)
    return b"".join(parts)


@settings(max_examples=150)
@given(sequences, st.integers(1, 400))
def test_every_request_has_one_answer_and_every_send_one_result(sequence: list[tuple[Any, ...]], piece: int) -> None:
    talk = Talk()
    talk.check(asyncio.run(converse(talk, sequence, piece)))

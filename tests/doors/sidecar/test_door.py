"""Our agents as a sidecar, run as a process by hosts of both kinds: the strict one and the patient one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.scripts import calls, says
from tests.streams import pair
from tests.wire.conversations.sidecar import SAMPLE_ORDER
from treadle.doors.sidecar.door import Sidecar
from treadle.errors import PeerClosed
from treadle.events import TextDelta, TurnEnded
from treadle.io.process.table import command_line
from treadle.session import AgentInfo, SessionSpec
from treadle.sessions.session import BaseSession, Turn
from treadle.wire.sidecar.connection import (
    NO_POLICY,
    CancelRun,
    ContextPacket,
    Ping,
    Requirement,
    Requirements,
    Run,
    Snippet,
    WorkOrder,
    WorkspaceSpec,
)
from treadle.wire.sidecar.receipts import normal, receipt_hash
from treadle.wire.sidecar.repair import read_receipt

RUN = "550e8400-e29b-41d4-a716-446655440000"
SECOND = "550e8400-e29b-41d4-a716-446655440001"
SIDECAR = str(Path(sys.executable).parent / "treadle-sidecar")


def order(root: Path, **changes: Any) -> WorkOrder:
    made = replace(
        SAMPLE_ORDER,
        task="do it",
        workspace=WorkspaceSpec(root=str(root), mode="staged", include=[], exclude=[]),
        context=ContextPacket(files=[], snippets=[]),
        policy=NO_POLICY,
        requirements=Requirements(required=[]),
        config=replace(SAMPLE_ORDER.config, model=None, env={}, max_turns=None, max_budget_usd=None, vendor={}),
    )
    return replace(made, **changes)


def run_line(work: WorkOrder, id: str = RUN) -> bytes:
    return msgspec.json.encode(Run(id=id, work_order=work)) + b"\n"


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.toml"
    path.write_text(text)
    return f"scripted:{path}"


WRITES = calls(
    "write_file",
    {"path": "made.txt", "content": "made"},
    text="Writing.",
    usage={"input": 100, "output": 10},
    cost=0.25,
) + says("Done.", usage={"input": 200, "output": 5}, cost=0.25)


def strict_host(work: WorkOrder) -> tuple[list[dict[str, Any]], subprocess.Popen[bytes]]:
    """As the first control plane does it: close stdin after `run`, kill on `final`."""
    process = subprocess.Popen([SIDECAR], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    lines = [json.loads(process.stdout.readline())]
    process.stdin.write(run_line(work))
    process.stdin.close()
    for line in process.stdout:
        lines.append(json.loads(line))
        if lines[-1]["t"] in ("final", "fatal"):
            process.kill()
            break
    process.stdout.close()
    process.wait()
    return lines, process


def test_a_strict_host_gets_everything_before_it_kills(tmp_path: Path) -> None:
    work = order(tmp_path, config=replace(order(tmp_path).config, model=script(tmp_path, WRITES)))
    lines, _ = strict_host(work)
    assert lines[0]["t"] == "hello" and lines[0]["mode"] == "mapped"
    assert [line["event"]["type"] for line in lines[1:-1] if line["event"]["type"] != "assistant_delta"] == [
        "run_started",
        "assistant_message",
        "tool_call",
        "file_changed",
        "tool_result",
        "assistant_message",
        "run_completed",
    ]
    receipt = lines[-1]["receipt"]
    assert receipt["outcome"] == "complete" and receipt["usage"]["input_tokens"] == 300
    assert receipt["usage"]["estimated_cost_usd"] == 0.5
    assert (tmp_path / "made.txt").read_text() == "made"
    assert len(receipt["trace"]) == len(lines) - 2
    parsed = normal(read_receipt(json.dumps(receipt).encode(), []))
    assert receipt_hash(parsed) == receipt["receipt_sha256"]


@pytest.mark.parametrize(
    "lists",
    [
        {"disallowed_tools": ["write_file"]},
        {"allowed_tools": ["read_file"]},
        {"deny_write": ["**/made.*"]},
        {"require_approval_for": ["Write"]},
    ],
)
def test_the_policy_of_the_order_is_enforced(tmp_path: Path, lists: dict[str, list[str]]) -> None:
    work = order(
        tmp_path,
        policy=replace(NO_POLICY, **lists),
        config=replace(order(tmp_path).config, model=script(tmp_path, WRITES)),
    )
    lines, _ = strict_host(work)
    assert not (tmp_path / "made.txt").exists()
    results = [line["event"] for line in lines[1:-1] if line["event"]["type"] == "tool_result"]
    assert [result["is_error"] for result in results] == [True] and results[0]["output"]["denied"] is True


def test_limits_of_the_order_hold(tmp_path: Path) -> None:
    for limit in ({"max_turns": 1}, {"max_budget_usd": 0.2}):
        work = order(tmp_path, config=replace(order(tmp_path).config, model=script(tmp_path, WRITES), **limit))
        assert strict_host(work)[0][-1]["receipt"]["outcome"] == "partial"


def test_an_order_that_cannot_be_done_is_a_fatal_with_its_id_and_code(tmp_path: Path) -> None:
    asks = Requirements(required=[Requirement(capability="vision", min_support="native")])
    fatal = strict_host(order(tmp_path, requirements=asks))[0][-1]
    assert (fatal["t"], fatal["ref_id"], fatal["error_code"]) == ("fatal", RUN, "capability_unsupported")
    fatal = strict_host(order(tmp_path / "nowhere"))[0][-1]
    assert fatal["error_code"] == "config_invalid"
    config = replace(order(tmp_path).config, model="scripted:/no/such/file.toml")
    assert strict_host(order(tmp_path, config=config))[0][-1]["t"] == "fatal"


def test_a_passed_through_request_comes_back_with_raw_messages(tmp_path: Path) -> None:
    vendor = {"abp": {"mode": "passthrough", "request": {"messages": [{"role": "user", "content": "please"}]}}}
    reply = '[[reply]]\nwhen = "please"\ntext = "as you wish"\n'
    work = order(tmp_path, config=replace(order(tmp_path).config, model=script(tmp_path, reply), vendor=vendor))
    lines, _ = strict_host(work)
    assert lines[-1]["receipt"]["mode"] == "passthrough"
    assert all("raw_message" in line["event"]["ext"] for line in lines[1:-1])


def test_context_is_part_of_the_prompt(tmp_path: Path) -> None:
    reply = '[[reply]]\nwhen = "(?s)do it.*notes.md.*hint:\\\\s+look here"\ntext = "seen"\n'
    context = ContextPacket(files=["notes.md"], snippets=[Snippet(name="hint", content="look here")])
    work = order(tmp_path, context=context, config=replace(order(tmp_path).config, model=script(tmp_path, reply)))
    assert strict_host(work)[0][-1]["receipt"]["outcome"] == "complete"


def test_the_environment_of_the_order_reaches_tools(tmp_path: Path) -> None:
    reply = calls("bash", {"command": "echo value=$FROM_ORDER"}) + says("ok")
    config = replace(order(tmp_path).config, model=script(tmp_path, reply), env={"FROM_ORDER": "seven"})
    lines, _ = strict_host(order(tmp_path, config=config))
    assert any(
        "value=seven" in json.dumps(line) for line in lines if line.get("event", {}).get("type") == "tool_result"
    )


def test_no_process_is_left_when_final_is_written(tmp_path: Path) -> None:
    mark = f"86400.{os.getpid()}"
    leaves = calls("bash", {"command": f"setsid sleep {mark} >/dev/null 2>&1 & echo started"})
    reply = leaves + says("left it running")
    config = replace(order(tmp_path).config, model=script(tmp_path, reply))
    strict_host(order(tmp_path, config=config))
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and command_line(int(pid)) == ["sleep", mark]]


# Against a session that does what the test says...


class Puppet(BaseSession):
    def __init__(self, spec: SessionSpec) -> None:
        super().__init__("puppet", AgentInfo(name="puppet"))
        self.spec = spec
        self.go = asyncio.Event()
        self.closed = False

    async def _turn(self, turn: Turn) -> TurnEnded:
        self.emit(TextDelta(text=turn.prompt.text))
        await self.go.wait()
        turn.text = "done"
        return turn.ending("completed")

    async def _close(self) -> None:
        self.closed = True


class PuppetAgent:
    name = "puppet"

    def __init__(self) -> None:
        self.opened: list[Puppet] = []

    async def probe(self) -> AgentInfo:
        return AgentInfo(name="puppet", version="1", capabilities={"streaming": "native"})

    async def open(self, spec: SessionSpec) -> Puppet:
        self.opened.append(Puppet(spec))
        return self.opened[-1]


class Talk:
    """The host's end, in this process."""

    def __init__(self) -> None:
        self.agent = PuppetAgent()
        self.host, theirs = pair()
        self.sidecar = asyncio.create_task(Sidecar(self.agent, theirs, warn=lambda text: None).run())
        self.held = b""

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of these kinds (or event types)."""
        async with asyncio.timeout(60):
            while True:
                while b"\n" not in self.held:
                    data = await self.host.read()
                    if not data:
                        raise PeerClosed("the sidecar has ended")
                    self.held += data
                line, _, self.held = self.held.partition(b"\n")
                message = json.loads(line)
                if message["t"] in kinds or message.get("event", {}).get("type") in kinds:
                    return dict(message)

    async def say(self, message: Any) -> None:
        await self.host.write(msgspec.json.encode(message) + b"\n")

    async def order(self, root: Path, id: str = RUN) -> None:
        await self.host.write(run_line(order(root), id))


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    made = Talk()
    await made.hear("hello")
    yield made
    made.sidecar.cancel()
    await asyncio.gather(made.sidecar, return_exceptions=True)


async def test_pings_are_answered_during_a_run_and_the_end_of_input_ends_nothing(talk: Talk, tmp_path: Path) -> None:
    await talk.order(tmp_path)
    await talk.hear("assistant_delta")
    await talk.say(Ping(seq=7))
    assert (await talk.hear("pong"))["seq"] == 7
    talk.host.close_write()
    talk.agent.opened[0].go.set()
    assert (await talk.hear("final"))["receipt"]["outcome"] == "complete"
    assert await talk.sidecar == 0


async def test_a_second_order_waits_for_the_first(talk: Talk, tmp_path: Path) -> None:
    await talk.order(tmp_path)
    await talk.order(tmp_path, SECOND)
    await talk.hear("assistant_delta")
    assert len(talk.agent.opened) == 1
    talk.agent.opened[0].go.set()
    assert (await talk.hear("final"))["ref_id"] == RUN
    assert talk.agent.opened[0].closed, "the first session is closed before its final"
    assert (await talk.hear("assistant_delta"))["ref_id"] == SECOND
    talk.agent.opened[1].go.set()
    assert (await talk.hear("final"))["receipt"]["meta"]["run_id"] == SECOND


async def test_an_order_that_is_cancelled_while_it_waits_never_starts(talk: Talk, tmp_path: Path) -> None:
    await talk.order(tmp_path)
    await talk.order(tmp_path, SECOND)
    await talk.hear("assistant_delta")
    await talk.say(CancelRun(ref_id=SECOND))
    await talk.say(Ping(seq=1))
    await talk.hear("pong")
    talk.agent.opened[0].go.set()
    await talk.hear("final")
    final = await talk.hear("final")
    assert final["ref_id"] == SECOND and final["receipt"]["outcome"] == "partial"
    assert len(talk.agent.opened) == 1


async def test_a_bad_line_during_a_run_does_not_end_it(talk: Talk, tmp_path: Path) -> None:
    await talk.order(tmp_path)
    await talk.hear("assistant_delta")
    await talk.host.write(b"junk\n")
    talk.agent.opened[0].go.set()
    assert (await talk.hear("final", "fatal"))["t"] == "final"


async def test_a_bug_in_an_agent_is_a_fatal_and_the_next_order_is_done(talk: Talk, tmp_path: Path) -> None:
    async def broken(spec: SessionSpec) -> Puppet:
        raise KeyError("a bug")

    opens, talk.agent.open = talk.agent.open, broken  # type: ignore[method-assign]
    await talk.order(tmp_path)
    fatal = await talk.hear("fatal")
    assert (fatal["ref_id"], fatal["error_code"]) == (RUN, "internal")
    talk.agent.open = opens  # type: ignore[method-assign]
    await talk.order(tmp_path, SECOND)
    await talk.hear("assistant_delta")
    talk.agent.opened[0].go.set()
    assert (await talk.hear("final"))["ref_id"] == SECOND


async def test_an_id_that_is_no_uuid_still_gives_a_receipt(talk: Talk, tmp_path: Path) -> None:
    await talk.order(tmp_path, "run-1")
    await talk.hear("assistant_delta")
    talk.agent.opened[0].go.set()
    final = await talk.hear("final")
    assert final["ref_id"] == "run-1" and len(final["receipt"]["meta"]["run_id"]) == 36


async def test_a_signal_ends_the_program_and_its_children(tmp_path: Path) -> None:
    slow = '[[reply]]\ntext = "never"\ndelay = 600\n'
    work = order(tmp_path, config=replace(order(tmp_path).config, model=script(tmp_path, slow)))
    process = subprocess.Popen([SIDECAR], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdout.readline()
    process.stdin.write(run_line(work))
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    process.stdin.close()
    process.stdout.close()


async def test_every_order_gets_an_answer_also_those_that_are_too_many(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.doors.sidecar.door.WAITING_ORDERS", 2)
    monkeypatch.setattr("treadle.doors.sidecar.door.REFUSED_ORDERS", 4)
    ids = [f"550e8400-e29b-41d4-a716-{number:012d}" for number in range(7)]
    await talk.order(tmp_path, ids[0])
    await talk.hear("assistant_delta")
    for id in ids[1:]:
        await talk.order(tmp_path, id)
    answers = []
    for number in range(len(ids)):
        if 0 < number <= 2:  # the one that runs, and two that wait
            await talk.hear("assistant_delta")
        talk.agent.opened[-1].go.set()
        answers.append(await talk.hear("final", "fatal"))
    assert [answer["ref_id"] for answer in answers] == ids
    assert [answer["t"] for answer in answers] == ["final"] * 3 + ["fatal"] * 4
    assert answers[-1]["error_code"] == "rate_limit_exceeded"


async def test_a_host_that_dies_during_a_silence_ends_the_session(talk: Talk, tmp_path: Path) -> None:
    await talk.order(tmp_path)
    await talk.hear("assistant_delta")
    talk.host.close()
    async with asyncio.timeout(60):
        assert await talk.sidecar == 1
    assert talk.agent.opened[0].closed


def test_a_sidecar_whose_output_nobody_reads_ends_with_its_tools(tmp_path: Path) -> None:
    mark = f"86401.{os.getpid()}"
    reply = calls("bash", {"command": f"sleep {mark}", "timeout": 3600})
    config = replace(order(tmp_path).config, model=script(tmp_path, reply))
    process = subprocess.Popen([SIDECAR], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdin.write(run_line(order(tmp_path, config=config)))
    process.stdin.flush()
    while json.loads(process.stdout.readline()).get("event", {}).get("type") != "tool_call":
        pass
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    process.stdin.close()
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and command_line(int(pid)) == ["sleep", mark]]


class Heard(Talk):
    def __init__(self, agent: PuppetAgent | None = None) -> None:
        self.agent = agent or PuppetAgent()
        self.host, theirs = pair()
        self.warnings: list[str] = []
        self.sidecar = asyncio.create_task(Sidecar(self.agent, theirs, warn=self.warnings.append).run())
        self.held = b""


async def test_a_host_that_has_no_orders_ends_it_and_half_a_line_is_warned_about() -> None:
    for said, warned in ((b"", []), (b'{"t": "run"', ["the input ended inside a line"])):
        talk = Heard()
        hello = await talk.hear("hello")
        assert hello["backend"]["id"] and hello["mode"] == "mapped"
        if said:
            await talk.host.write(said)
        talk.host.close_write()
        assert await asyncio.wait_for(talk.sidecar, 60) == 0
        assert [warning.partition(":")[0] for warning in talk.warnings] == warned


async def test_an_agent_that_does_not_say_what_it_can_is_served_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(PuppetAgent):
        async def probe(self) -> AgentInfo:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("treadle.doors.sidecar.door.PROBE_SECONDS", 0.001)
    talk = Heard(Silent())
    assert "streaming" not in (await talk.hear("hello"))["capabilities"]
    assert talk.warnings == ["what puppet can do is not known: it does not say"]
    talk.host.close_write()
    assert await asyncio.wait_for(talk.sidecar, 60) == 0


async def test_a_bad_line_is_answered_with_its_id_where_it_has_one_and_only_between_orders(tmp_path: Path) -> None:
    talk = Heard()
    await talk.hear("hello")
    await talk.host.write(b"junk\n")
    fatal = await talk.hear("fatal")
    assert (fatal["ref_id"], fatal["error_code"]) == (None, "protocol_invalid_envelope")
    await talk.host.write(json.dumps({"t": "run", "id": RUN, "work_order": {"task": 7}}).encode() + b"\n")
    fatal = await talk.hear("fatal")
    assert (fatal["ref_id"], fatal["error_code"]) == (RUN, "contract_schema_violation")
    assert len(talk.warnings) == 2 and all(one.startswith("a line was not understood: ") for one in talk.warnings)
    await talk.order(tmp_path)
    await talk.hear("assistant_delta")
    talk.host.close()
    assert await asyncio.wait_for(talk.sidecar, 60) == 1
    assert talk.warnings[2:] in (["no one reads our output any more"], ["the host went away"])
    assert talk.agent.opened[0].closed


async def test_an_order_that_is_not_met_or_cancelled_for_another_does_not_end_it(talk: Talk, tmp_path: Path) -> None:
    asks = Requirements(required=[Requirement(capability="vision", min_support="native")])
    await talk.host.write(run_line(order(tmp_path, requirements=asks)))
    fatal = await talk.hear("fatal")
    assert "puppet lacks what the order requires: vision" in fatal["error"]
    await talk.order(tmp_path, SECOND)
    await talk.hear("assistant_delta")
    await talk.say(CancelRun(ref_id=RUN))
    await talk.say(Ping(seq=1))
    await talk.hear("pong")
    assert not talk.agent.opened[0].closed, "that one is over already"
    await talk.say(CancelRun(ref_id=SECOND))
    final = await talk.hear("final")
    assert final["receipt"]["outcome"] == "partial"

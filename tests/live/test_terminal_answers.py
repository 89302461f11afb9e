"""Of several answers at once to a real agent's dialog one is typed, and none reaches the next dialog, which asks for a
command that no one has read; also while the agent is stopped now and then."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import DONE, USED
from tests.live.test_terminal_sends import ESCALATED, NAMES, AnsweringServer, RealAgent
from tests.terminal.support import connected, until
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.wire.terminal import frames as wire

ROUNDS, PEOPLE = 10, 4
STOPPED = 1.0
"""The longest stop, in seconds."""
ALLOW = {"codex": b"y", "opencode": b"\r"}
"""The key that allows a command once, where it is not 1."""


def calls(name: str, number: int) -> tuple[CallLine, ...]:
    lines = []
    for which in ("first", "second"):
        tool, arguments = PROGRAMS[name].tools.shell(f"touch {which}-{number}.txt")
        more = ESCALATED if name == "codex" else {}
        lines.append(CallLine(name=tool, arguments=arguments | more, id=f"call_{which}_{number}"))
    return tuple(lines)


@pytest.mark.parametrize("name", NAMES)
async def test_no_answer_reaches_a_dialog_that_its_sender_has_not_read(
    name: str, tmp_path: Path, tmp_path_factory: Any
) -> None:
    rounds = [
        ScriptedReply(when=rf"do both {number}\.", call=calls(name, number), times="always", usage=USED)
        for number in range(ROUNDS)
    ]
    rest = ScriptedReply(text=DONE, times="always", usage=USED)
    async with AnsweringServer(Script(reply=(*rounds, rest))) as server:
        home = tmp_path_factory.mktemp("home")
        agent = await asyncio.to_thread(RealAgent, name, 0, 0, tmp_path, home, server)
        try:
            await asyncio.to_thread(agent.load)
            agent.longest, stopping = STOPPED, threading.Thread(target=agent.act, args=(agent.stop_and_go,))
            stopping.start()
            try:
                for number in range(ROUNDS):
                    await asyncio.to_thread(race, agent, number)
            finally:
                agent.done.set()
                stopping.join()
            assert agent.stops and not agent.broken, agent.broken
            print(f"{name}: {ROUNDS * PEOPLE} answers to {2 * ROUNDS} dialogs, {agent.stops} stops")
        finally:
            await asyncio.to_thread(agent.run, "kill", agent.name, "--grace", "0")


def state(agent: RealAgent) -> dict[str, Any]:
    with connected(agent.place) as client:
        found: dict[str, Any] = client.detail()["state"]
        return found


def asks(agent: RealAgent, *commands: str) -> tuple[str, str]:
    """The dialog that asks for one of these commands, once it is there, and the command."""
    deadline = time.monotonic() + 200  # opencode's first turn, stopped now and then on a busy machine
    while True:
        read = state(agent)
        found = [each for each in commands if each in (read["message"] or "")]
        if read["dialog"] and found and not read["settling"]:
            return read["dialog"], found[0]
        assert time.monotonic() < deadline, f"no dialog about {commands}: {read}"
        time.sleep(0.05)


def race(agent: RealAgent, number: int) -> None:
    send = ("send", agent.name, f"do both {number}.", "--replace", "--timeout", "60")
    until(lambda: taken(agent.run(*send), agent.kind), "the prompt to be taken", 120)
    commands = {f"first-{number}.txt", f"second-{number}.txt"}
    typed = 0
    while not typed:  # none is, if the dialog is drawn anew between reading and answering
        to, read = asks(agent, *commands)
        typed = answers(agent, to)
    assert typed == 1
    after, unread = asks(agent, *commands - {read})
    assert not (agent.work / unread).exists()
    with connected(agent.place) as client:
        while not (told := client.type_in(b"\x1b", wire.ANSWERS, after))["typed"]:
            assert told["why"] in ("settling", "changed"), told
            print(f"{agent.kind}: {told['why']}: {told['state']['dialog']} is not {after}")
            after, _ = asks(agent, unread)
    until(lambda: state(agent)["name"] == "idle", "the turn to end", 60)
    assert not (agent.work / unread).exists()


def taken(found: tuple[int, str], kind: str) -> bool:
    """One that is refused, with the reason, is sent again."""
    code, said = found
    if code:
        assert code in (3, 4) and said, found
        print(f"{kind}: {said}")
    return not code


def answers(agent: RealAgent, to: str) -> int:
    """How many of those who answer this dialog at once have typed."""

    def answer(_: int) -> bool:
        with connected(agent.place) as client:
            deadline = time.monotonic() + 10
            while True:
                told = client.type_in(ALLOW.get(agent.kind, b"1"), wire.ANSWERS, to)
                if told["typed"] or told["why"] != "settling" or time.monotonic() > deadline:
                    return bool(told["typed"])

    with ThreadPoolExecutor(PEOPLE) as people:
        return sum(people.map(answer, range(PEOPLE)))

"""Messages to an agent: changed until they are delivered, and heard when they were meant to be."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, activity_of, give, spec
from tests.fleet.repositories import DONE, bash, model, says, work, write
from treadle.errors import LocalError, Unsupported
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs
from treadle.fleet.run.execute import Messages
from treadle.wire.fleet.records import SayRecord


async def test_a_message_can_be_changed_until_it_is_delivered(bus: Bus, start_node: Start) -> None:
    await start_node(slots=0)
    (name,) = await give(bus, spec())
    key = await client.say(bus, name, "use tabs", by="ana")
    await client.edit_message(bus, key, "use spaces")
    ((_, message),) = await client.messages(bus, name)
    assert message.text == "use spaces" and message.state == "queued"
    await bus.put(f"say.{key}", msgspec.json.encode(replace(message, state="delivered")))
    with pytest.raises(LocalError, match="delivered already"):
        await client.edit_message(bus, key, "too late")


@pytest.mark.slow
async def test_a_message_comes_now_after_the_turn_or_at_the_next_step(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    """The tool ends when there is a file, which the one that is told `now` never gets."""
    await start_node(slots=3)
    replies = [
        says("With tabs then.", write("tabs.txt", "tabs"), when="use tabs"),
        says("I write.", bash("while [ ! -e .env ]; do sleep 0.05; done"), turn=1),
        DONE,
    ]
    orders = {when: work(repository, model(tmp_path, *replies), rules=("allow Bash",)) for when in ("now", "turn", "")}
    await give(bus, *orders.values())
    for when, order in orders.items():
        async with asyncio.timeout(60):
            while not activity_of(await client.why(bus, order.id)).open_tools:
                await asyncio.sleep(0.05)
        key = await client.say(bus, order.id, "use tabs", when=when, by="ana")
        if when == "turn":
            await client.edit_message(bus, key, "use tabs, please")
        elif when == "":
            async with asyncio.timeout(60):
                while (await client.messages(bus, order.id))[0][1].state == "queued":
                    await asyncio.sleep(0.05)
        if when != "now":
            (Path(runs.directory(order.id, 1)) / "work" / ".env").touch()
    for order in orders.values():
        ended = await client.wait(bus, order.id, 90)
        assert ended.state == "done" and ended.result["changed"] == ["tabs.txt"], ended
        ((_, message),) = await client.messages(bus, order.id)
        assert message.state == "in turn"


async def test_a_message_for_the_next_step_of_an_agent_that_hears_none_while_it_works_is_refused(
    bus: Bus, start_node: Start
) -> None:
    await start_node(slots=0)
    (name,) = await give(bus, spec(agent="copilot"))
    with pytest.raises(Unsupported, match="copilot cannot be given a message while it works") as caught:
        await client.say(bus, name, "use tabs")
    assert "--after-turn" in (caught.value.hint or "") and await client.messages(bus, name) == []
    await client.say(bus, name, "use tabs", when="turn")
    assert [message.state for _, message in await client.messages(bus, name)] == ["queued"]


class Agent:
    """An agent that notes what it is told, and says whether it was in a turn."""

    def __init__(self, *, steers: bool = True, talks: bool = True) -> None:
        self.steers, self.talks, self.told = steers, talks, list[tuple[str, str]]()

    async def steer(self, text: str) -> bool:
        if text == "no":
            raise Unsupported("it hears nothing")
        self.told.append(("step", text))
        return self.steers

    async def next(self, text: str, *, now: bool) -> bool:
        self.told.append(("now" if now else "turn", text))
        return self.talks


async def delivered(
    bus: Bus, agent: Agent, *said: tuple[str, str]
) -> tuple[Messages, Callable[[], Awaitable[list[str]]]]:
    attempt: Any = SimpleNamespace(bus=bus, spec=SimpleNamespace(id="o"), order=SimpleNamespace(attempt=3))
    made = Messages(attempt, agent.steer, agent.next)
    for number, (when, text) in enumerate(said, 1):
        await bus.put(f"say.o.{number}", msgspec.json.encode(SayRecord(text=text, when=when)))  # type: ignore[arg-type]

    async def states() -> list[str]:
        return [message.state for _, message in await client.messages(bus, "o")]

    return made, states


async def until(states: Callable[[], Awaitable[list[str]]], *expected: str) -> None:
    async with asyncio.timeout(60):
        while await states() != list(expected):
            await asyncio.sleep(0.01)


async def test_each_message_is_given_when_it_was_meant_to_be_and_marked_with_what_became_of_it(bus: Bus) -> None:
    agent = Agent()
    said = [("", "step"), ("now", "now"), ("turn", "later"), ("", "no")]
    made, states = await delivered(bus, agent, *said)
    await bus.put("say.o.5", msgspec.json.encode(SayRecord(text="old", state="delivered")))
    made.close()
    made.start()
    await until(states, "in turn", "in turn", "queued", "refused", "delivered")
    assert agent.told == [("step", "step"), ("now", "now")]
    found = dict(await client.messages(bus, "o"))
    assert (found["o.1"].attempt, found["o.4"].why) == (3, "it hears nothing") and (found["o.1"].delivered or 0) > 1e9
    await made.turn_ended()
    assert agent.told[2:] == [("turn", "later")] and (await states())[2] == "in turn"
    made.close()


async def test_what_comes_while_there_is_no_turn_waits_for_the_next_and_what_no_one_takes_is_only_delivered(
    bus: Bus,
) -> None:
    agent = Agent(steers=False, talks=False)
    made, states = await delivered(bus, agent, ("", "step"), ("now", "now"))
    made.start()
    async with asyncio.timeout(60):
        while [message.when for _, message in await client.messages(bus, "o")] != ["turn", "turn"]:
            await asyncio.sleep(0.01)
    assert agent.told == [("step", "step"), ("turn", "step"), ("now", "now")] and await states() == ["queued", "queued"]
    await made.turn_ended()
    assert await states() == ["delivered", "delivered"] and agent.told[3:] == [("turn", "step"), ("turn", "now")]
    made.close()


async def test_a_message_that_its_writer_changes_just_before_it_is_given_is_heard_as_it_is_then(bus: Bus) -> None:
    class Interrupted(Agent):
        async def steer(self, text: str) -> bool:
            if text == "first":  # the runner has read the second already
                await client.edit_message(bus, "o.2", "changed")
            return await super().steer(text)

    agent = Interrupted()
    made, states = await delivered(bus, agent, ("", "first"), ("", "second"))
    made.start()
    await until(states, "in turn", "in turn")
    assert agent.told == [("step", "first"), ("step", "changed")]
    made.close()

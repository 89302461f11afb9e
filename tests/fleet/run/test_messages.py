"""Messages to an agent: changed until they are delivered, and heard when they were meant to be."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, activity_of, give, spec
from tests.fleet.repositories import DONE, bash, model, says, work, write
from treadle.errors import LocalError, Unsupported
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs


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

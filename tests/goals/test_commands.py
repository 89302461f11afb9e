"""What people do about a goal."""

import asyncio
from pathlib import Path

from tests.fleet.conftest import Start
from tests.goals.running import answering, carried, placed
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus
from treadle.goals import commands, store


async def test_people_pause_go_on_say_retry_and_stop(bus: Bus, start_node: Start, repository: Path) -> None:
    orders = '[[order]]\nid = "o1"\ntask = "t"\nagent = "null:60:60"\nland = false\n'
    plan = f'goal = "g"\ndone = "false"\nverify = "true"\ngates = ["plan"]\nroles = {{ judge = "none" }}\n{orders}'
    await start_node(slots=2)
    async with carried(bus):
        name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
        await commands.pause(bus, name, why="lunch", by="ana")
        assert (await commands.explain(bus, name))[""] == "paused: lunch"
        await commands.resume(bus, name, by="ana")
        person = asyncio.create_task(answering(bus))
        await placed(bus, name, "o1", times=1)
        await tasks.end([person])
        await commands.say(bus, name, "be careful", by="ana")
        await client.cancel(bus, f"{name}-o1", by="ana")
        async with asyncio.timeout(60):
            async for record in commands.follow(bus, name):
                if record.steps["o1"].state == "dropped" and record.questions:
                    break
        assert "cancelled by ana" in record.steps["o1"].why and list(record.questions) == ["round:1"]
    again = await commands.retry(bus, name, "o1", by="ana")
    assert again.steps["o1"].state == "waiting" and again.comments == ("be careful",) and again.questions == {}
    async with carried(bus):
        record = await placed(bus, name, "o1", times=2)
        assert "be careful" in (await client.get_spec(bus, record.steps["o1"].order)).task
        await commands.stop(bus, name, why="enough", by="ana")
        order = await client.wait(bus, record.steps["o1"].order, 60)
    record, _ = await store.load(bus, name)
    assert record.state == "stopped" and record.why == "stopped by ana: enough" and order.state == "cancelled"

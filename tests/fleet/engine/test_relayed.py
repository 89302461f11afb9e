"""Instructions come from those who may give them, and not out of a stream that others may write."""

import asyncio

import msgspec

from tests.fleet.engine.test_roles import fleet as fleet
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import EVENTS, Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet.messages import StopRun

TOLD = "fleet.tell.n1.o"


async def test_a_worker_cannot_have_the_engine_send_its_instructions_to_others(fleet: places.Fleet, bus: Bus) -> None:
    heard: list[bytes] = []
    arrived = asyncio.Event()

    async def obey(subject: str, data: bytes) -> bytes:
        heard.append(data)
        arrived.set()
        return b"{}"

    await bus.serve(TOLD, obey)
    worker = await Bus.connect(fleet.address("worker:n2"))
    try:
        order = encode(StopRun(why="evil"))
        await worker.publish("fleet.ev.o.1.n2", order)
        config = {"ack_policy": "none", "deliver_policy": "all", "filter_subject": "fleet.ev.o.1.n2"}
        for name, more in (("push", {"deliver_subject": TOLD}), ("pull", {})):
            request = {"stream_name": EVENTS, "config": {**config, **more, "name": name}}
            await worker.api(f"CONSUMER.CREATE.{EVENTS}.{name}", request)
        next_one = msgspec.json.encode({"batch": 1})
        await worker.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{EVENTS}.pull", next_one, reply=TOLD)
        await worker.client.publish(f"$JS.API.DIRECT.GET.{EVENTS}.fleet.ev.o.1.n2", b"", reply=TOLD)
        await worker.client.flush()
        # A second round through the engine: what it was made to send before has arrived by then.
        await worker.api(f"STREAM.INFO.{EVENTS}")
        await bus.api(f"STREAM.INFO.{EVENTS}")
        real = encode(StopRun(why="a person said so"))
        await bus.tell(TOLD, real)
        await asyncio.wait_for(arrived.wait(), 60)
        assert heard == [real]
    finally:
        await worker.close()

"""Lines that orders have landed."""

import msgspec

from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet.records import OrderReceipt, Used


async def costing(bus: Bus, name: str, used: Used) -> None:
    order = await client.get_order(bus, name)
    await bus.put(f"order.{name}", encode(msgspec.structs.replace(order, used=used)))
    await bus.put(f"receipt.{name}", encode(OrderReceipt(order=name, outcome="done", used=used).sealed()))

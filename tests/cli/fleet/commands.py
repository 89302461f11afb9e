"""The fleet's commands in this process: as typed, without the half second that it takes to start Python."""

import asyncio
import base64
import json
import time
from functools import partial
from typing import Any

from click.testing import CliRunner

from treadle.cli.fleet import fleet as group
from treadle.errors import TreadleError
from treadle.fleet.engine.bus import INBOX, Bus
from treadle.fleet.orders import encode
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order


def fleet(*arguments: str, code: int = 0, stdin: str = "", both: bool = False) -> str:
    """What `treadle fleet ...` prints; on stderr too where it fails, or `both` are wanted."""
    done = CliRunner().invoke(group, arguments, input=stdin)
    failed = done.exception
    if failed is not None and not isinstance(failed, SystemExit | TreadleError):
        raise failed
    said = f"treadle: {failed}" if isinstance(failed, TreadleError) else ""
    assert done.exit_code == code, (arguments, done.output, said)
    return done.stdout if code == 0 and not both else done.output + said


def as_json(*arguments: str, **more: Any) -> Any:
    return json.loads(fleet(*arguments, "--json", **more))


async def typed(*arguments: str, **more: Any) -> str:
    """The same beside a connection of the test's own."""
    return await asyncio.to_thread(partial(fleet, *arguments, **more))


async def typed_json(*arguments: str, **more: Any) -> Any:
    return json.loads(await typed(*arguments, "--json", **more))


async def requested(bus: Bus) -> list[dict[str, Any]]:
    """What people asked of the scheduler since the last look. There is none that would take it."""
    state = (await bus.api(f"STREAM.INFO.{INBOX}"))["state"]
    found = []
    for number in range(state["first_seq"], state["first_seq"] + state["messages"]):
        message = (await bus.api(f"STREAM.MSG.GET.{INBOX}", {"seq": number}))["message"]
        request = json.loads(base64.b64decode(message["data"]))
        assert request.pop("by")
        found.append(request)
    await bus.api(f"STREAM.PURGE.{INBOX}")
    return found


async def stored(bus: Bus, name: str, given: dict[str, Any] | None = None, **fields: Any) -> str:
    """An order as the scheduler stores it, with what was `given`."""
    spec = Spec(id=name, task=f"do {name}", agent=fields.get("agent", "null"), **(given or {}))
    order = Order(**{"id": name, "state": "done", "changed": time.time(), "title": name, **fields})
    await bus.put(f"spec.{name}", encode(spec))
    await bus.put(f"order.{name}", encode(order))
    if not order.ended:
        await bus.put(f"active.{name}", b"{}")
    return name

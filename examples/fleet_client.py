"""Submit an order to a fleet and follow it to its end, with a plain NATS client and without Treadle.

    python fleet_client.py nats://submit:PASSWORD@127.0.0.1:PORT "fix the failing test" [AGENT]

The user and password of the role `submit` are in fleet.json in Treadle's state directory.
"""

import asyncio
import json
import sys
import uuid

import nats


async def main(url: str, task: str, agent: str = "native") -> int:
    client = await nats.connect(url, inbox_prefix="_INBOX_submit", max_reconnect_attempts=3)
    stream = client.jetstream()
    order = uuid.uuid4().hex[:12]
    spec = {"format": 1, "id": order, "task": task, "agent": agent}
    # Stored when this returns. Expecting no earlier message makes it safe to repeat.
    await stream.publish(
        f"$KV.fleet.spec.{order}",
        json.dumps(spec).encode(),
        headers={"Nats-Expected-Last-Subject-Sequence": "0"},
    )
    print(f"given: {order}")
    state = ""
    while state not in ("done", "failed", "cancelled", "skipped"):
        await asyncio.sleep(0.1)
        found = await client.request(f"$JS.API.DIRECT.GET.KV_fleet.$KV.fleet.order.{order}", timeout=5)
        if not (found.headers or {}).get("Status"):
            state = json.loads(found.data)["state"]
    print(f"ended: {state}")
    await client.close()
    return 0 if state == "done" else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))

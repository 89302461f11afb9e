#!/usr/bin/env python3
"""A whole sidecar in plain Python: it writes the task into a file and reports it. Needs nothing but Python.

treadle host run --sidecar "python3 examples/sidecar.py" --task "remember the milk" --apply
"""

import json
import os
import queue
import sys
import threading
from datetime import UTC, datetime
from typing import Any

BACKEND = {"id": "example-python", "backend_version": "1.0.0", "adapter_version": None}
CAPABILITIES = {"streaming": "native", "tool_write": "native"}
lock = threading.Lock()


def say(message: dict[str, Any]) -> None:
    with lock:  # another thread writes pongs
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(orders: queue.Queue[Any], cancelled: set[str]) -> None:
    """Commands come in while we work, so a thread reads them. The end of input only means that no more will come."""
    for line in sys.stdin:
        message = json.loads(line)
        if message["t"] == "run":
            orders.put(message)
        elif message["t"] == "cancel":
            cancelled.add(message["ref_id"])
        elif message["t"] == "ping":
            say({"t": "pong", "seq": message["seq"]})
    orders.put(None)


def work(run: dict[str, Any], cancelled: set[str]) -> None:
    ref, order, started, trace = run["id"], run["work_order"], now(), []

    def event(type: str, **fields: object) -> None:
        trace.append({"ts": now(), "type": type, **fields})
        say({"t": "event", "ref_id": ref, "event": trace[-1]})

    event("run_started", message="starting")
    outcome = "partial"
    if ref not in cancelled:
        with open(os.path.join(order["workspace"]["root"], "NOTES.md"), "a") as file:
            file.write(f"- {order['task']}\n")
        event("file_changed", path="NOTES.md", summary="modified")
        event("assistant_message", text="I wrote it down.")
        outcome = "complete"
    event("run_completed", message=outcome)
    finished = now()
    say({"t": "final", "ref_id": ref, "receipt": {
        "meta": {
            "run_id": ref, "work_order_id": order["id"], "contract_version": "abp/v0.1",
            "started_at": started, "finished_at": finished, "duration_ms": 0,
        },
        "backend": BACKEND, "capabilities": CAPABILITIES, "mode": "mapped",
        "usage_raw": {}, "usage": {}, "trace": trace, "artifacts": [],
        "verification": {"git_diff": None, "git_status": None, "harness_ok": False},
        "outcome": outcome, "receipt_sha256": None,
    }})  # fmt: skip


def main() -> None:
    say(
        {
            "t": "hello",
            "contract_version": "abp/v0.1",
            "backend": BACKEND,
            "capabilities": CAPABILITIES,
            "mode": "mapped",
        }
    )
    orders: queue.Queue[Any] = queue.Queue()
    cancelled: set[str] = set()
    threading.Thread(target=read, args=(orders, cancelled), daemon=True).start()
    while (run := orders.get()) is not None:
        work(run, cancelled)


main()

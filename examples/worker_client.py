"""A client of the worker protocol in plain Python: python worker_client.py MODEL MESSAGE

Prints the answer as it is written and what the tools do. Ctrl-C cancels the send.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

model, message = sys.argv[1:]
worker = subprocess.Popen(
    ["treadle-worker"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    encoding="utf-8",
    start_new_session=True,  # so that Ctrl-C reaches us and not the worker
)
assert worker.stdin is not None and worker.stdout is not None
requests, replies = worker.stdin, worker.stdout


def ask(**request: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # the worker has ended: the end of its output will tell
        requests.write(json.dumps(request) + "\n")
        requests.flush()


def responses() -> Iterator[dict[str, Any]]:
    for line in replies:
        yield json.loads(line)
    worker.communicate()
    raise SystemExit(f"the worker exited with code {worker.returncode}")


def show(event: dict[str, Any]) -> None:
    match event:
        case {"event": "content_delta", "text": text}:
            print(text, end="", flush=True)
        case {"event": "tool_start", "name": name, "args": args}:
            print(f"\n[{name} {json.dumps(args)}]", flush=True)
        case {"event": "permission_denied", "name": name, "reason": reason}:
            print(f"\n[{name} was not allowed: {reason}]", flush=True)
    # Anything else is skipped: later workers may say more.


def run() -> dict[str, Any]:
    for response in responses():
        if response["type"] == "event":
            show(response["event"])
        elif response["type"] == "result" and response["id"] in ("1", "2", "unknown"):
            return response
    raise AssertionError("responses never end without an exit")


tools = ["read_file", "glob", "grep", "bash"]
ask(type="init", id="1", protocol_version="0.2.0", config={"model": model, "system_prompt": "", "tools": tools})
ask(type="send", id="2", message=message)
try:
    result = run()
except KeyboardInterrupt:
    ask(type="cancel", id="3", target_id="2")
    result = run()
ask(type="shutdown", id="4")
worker.communicate()  # also drops what a worker that has ended did not read
if result["status"] == "ok":
    tokens = result.get("usage", {}).get("total_tokens", "an unknown number of")
    print(f"\n({result['iterations']} model calls, {tokens} tokens, {result['total_latency_ms']} ms)")
else:
    sys.exit(f"\n{result['error']['code']}: {result['error']['message']}")

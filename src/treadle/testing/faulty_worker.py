"""A worker that follows a script, right or wrong: `python -m treadle.testing.faulty_worker SCRIPT`.

SCRIPT is JSON: for each request type, the actions that answer it; without an entry, a worker's normal answer.

    {"send": [{"event": {"event": "content_delta", "text": "a"}}, {"stderr": "oh no"}, {"exit": 3}]}

Actions: {"say": {...}} a line, with "$id" for the request's id; {"event": {...}} an event of this send;
{"result": {...}} its result; {"raw": "text"} as it is; {"stderr": "text"}; {"repeat": n, "do": [...]}, or "forever" for
n; {"sleep": seconds}; {"await": "cancel"} the next request of that type; {"child": "path"} start a child that nothing
but a kill ends, and note its pid there; {"deaf": true} ignore SIGTERM; {"close": true} close stdout; {"exit": code};
{"normal": true} the normal answer after all.

Plain Python that imports nothing of treadle: it stands for another vendor's program.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

NORMAL: dict[str, list[dict[str, Any]]] = {
    "init": [{"say": {"type": "init_ok", "id": "$id", "session_id": "faulty-1", "protocol_version": "0.2.0"}}],
    "send": [
        {"event": {"event": "content_delta", "text": "$message"}},
        {"event": {"event": "usage", "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
        {"result": {"status": "ok", "response": "$message"}},
    ],
    "status": [
        {
            "say": {
                "type": "status_ok",
                "id": "$id",
                "model": "m",
                "messages_count": 0,
                "session_id": "faulty-1",
                "active": False,
            }
        }
    ],
    "shutdown": [{"say": {"type": "shutdown_ok", "id": "$id"}}, {"exit": 0}],
    "cancel": [],
}


class FaultyWorker:
    def __init__(self, script: dict[str, list[dict[str, Any]]]) -> None:
        self.script = script
        self.seq = 0

    def run(self) -> None:
        while request := self.next():
            self.seq = 0
            self.do(self.script.get(request["type"], NORMAL.get(request["type"], [])), request)

    def next(self) -> Any:
        line = sys.stdin.buffer.readline()
        return json.loads(line) if line else None

    def do(self, actions: list[dict[str, Any]], request: dict[str, Any]) -> None:
        for action in actions:
            [name] = set(action) - {"do"}
            if name == "repeat":
                times = action["repeat"]
                done = 0
                while times == "forever" or done < times:
                    self.do(action["do"], request)
                    done += 1
            else:
                getattr(self, f"do_{name}")(action[name], request)

    def write(self, text: str) -> None:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()

    def do_say(self, body: dict[str, Any], request: dict[str, Any]) -> None:
        text = json.dumps(body)
        for field in ("id", "message", "target_id"):
            text = text.replace(f'"${field}"', json.dumps(request.get(field, "")))
        self.write(text + "\n")

    def do_event(self, event: dict[str, Any], request: dict[str, Any]) -> None:
        self.do_say({"type": "event", "event": event, "event_seq": self.seq, "send_id": "$id"}, request)
        self.seq += 1

    def do_result(self, body: dict[str, Any], request: dict[str, Any]) -> None:
        self.do_say({"type": "result", "id": "$id", "tool_calls_made": [], "iterations": 1, **body}, request)

    def do_raw(self, text: str, request: dict[str, Any]) -> None:
        self.write(text)

    def do_stderr(self, text: str, request: dict[str, Any]) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_sleep(self, seconds: float, request: dict[str, Any]) -> None:
        time.sleep(seconds)

    def do_await(self, kind: str, request: dict[str, Any]) -> None:
        while (other := self.next()) is not None and other["type"] != kind:
            pass

    def do_child(self, path: str, request: dict[str, Any]) -> None:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdin=subprocess.DEVNULL)
        with open(path, "w") as file:
            file.write(str(child.pid))

    def do_deaf(self, on: bool, request: dict[str, Any]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_close(self, on: bool, request: dict[str, Any]) -> None:
        sys.stdout.close()
        os.close(1)

    def do_exit(self, code: int, request: dict[str, Any]) -> None:
        os._exit(code)

    def do_normal(self, on: bool, request: dict[str, Any]) -> None:
        self.do(NORMAL[request["type"]], request)


if __name__ == "__main__":
    FaultyWorker(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}).run()

"""A program that plays a recorded agent: it repeats what the agent said, and waits for what the host said.

    python tests/stand_ins/replay.py RECORDING [--fault NAME] [--after N] [--child COMMAND] [ARGUMENTS ...]

A recording is a file of JSON lines, `{"dir": "in" | "out", "line": ...}`: `in` is what the host said, `out` what the
agent said, and `"times"` beside them repeats a line; `"exact"` requires the host's answer word for word. Ids that
the host makes up differ from run to run, so those of the recording are replaced by the real ones.
`--fault` breaks the conversation N `out` lines after the first prompt; `--child` starts a process that must not
be left behind. Further arguments, such as those that the real program would get, are ignored.

Plain standard library: a test starts hundreds of these.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

from treadle.light import Any

FAULTS = ("exit", "crash", "hang", "deaf", "cut", "garbage", "giant", "flood")
ID_KEYS = ("id", "request_id", "uuid", "requestId", "command_uuid", "session_id", "sessionId", "threadId")
PLACE = re.compile(r"(?<![\w/.-])/w(?![\w.-])")
"""Where the agent worked when it was recorded; replaced by our own directory."""
GIANT = 64 * 1024 * 1024
FLOOD = 20_000


class Replay:
    def __init__(self, lines: list[dict[str, Any]], options: argparse.Namespace) -> None:
        self.lines = lines
        self.options = options
        self.ids: dict[str, Any] = {}
        """Ids of the recording -> ids of this run."""
        self.unread: list[Any] = []
        self.prompted = False
        self.since = 0

    def play(self) -> int:
        for number, entry in enumerate(self.lines):
            if entry["dir"] == "in":
                if not self.await_line(entry["line"], exact=entry.get("exact", False)):
                    return 0
            elif entry["dir"] == "out":
                if self.prompted:
                    if self.options.fault and self.since == self.options.after:
                        return self.break_off(entry["line"], self.lines[number:])
                    self.since += 1
                self.say(self.mapped(entry["line"]), entry.get("times", 1))
        while self.read() is not None:
            pass
        return 0

    def say(self, line: Any, times: int = 1) -> None:
        text = line if isinstance(line, str) else json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        data = text.encode() + b"\n"
        for _ in range(times // 1000):
            sys.stdout.buffer.write(data * 1000)
        sys.stdout.buffer.write(data * (times % 1000))
        sys.stdout.buffer.flush()

    def read(self) -> Any:
        line = sys.stdin.buffer.readline()
        return json.loads(line) if line else None

    def await_line(self, recorded: Any, exact: bool = False) -> bool:
        """Wait until the host says what it said in the recording. False when it has gone."""
        if not isinstance(recorded, dict):
            return True
        while True:
            for at, line in enumerate(self.unread):
                if shape(line) == shape(self.mapped(recorded)) and (not exact or line["result"] == recorded["result"]):
                    del self.unread[at]
                    self.learn(recorded, line)
                    if is_prompt(line):
                        self.prompted = True
                        if self.options.child:
                            subprocess.Popen(["/bin/sh", "-c", self.options.child], start_new_session=True)
                    return True
            line = self.read()
            if line is None:
                return False
            self.unread.append(line)

    def learn(self, recorded: Any, line: Any) -> None:
        if isinstance(recorded, dict) and isinstance(line, dict):
            for key in recorded.keys() & line.keys():
                old, new = recorded[key], line[key]
                if key in ID_KEYS and old != new and isinstance(old, str | int) and isinstance(new, str | int):
                    self.ids[f"{old!r}"] = new
                else:
                    self.learn(old, new)

    def mapped(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.mapped(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.mapped(inner, key) for inner in value]
        if key in ID_KEYS and isinstance(value, str | int) and not isinstance(value, bool):
            return self.ids.get(f"{value!r}", value)
        return PLACE.sub(os.getcwd(), value) if isinstance(value, str) and "/w" in value else value

    # What can go wrong...

    def break_off(self, line: Any, rest: list[dict[str, Any]]) -> int:
        out = sys.stdout.buffer
        match self.options.fault:
            case "exit":
                return 0
            case "crash":
                sys.stderr.write("it went wrong\n")
                sys.stderr.flush()
                os._exit(3)
            case "hang":
                time.sleep(600)
            case "deaf":  # it works on, and hears nothing
                os.close(0)
                time.sleep(600)
            case "cut":
                out.write(json.dumps(line).encode()[:-3])
                out.flush()
                os._exit(1)
            case "garbage":
                for junk in (b"\x00\xff\xfe\n", b"not json\n", b"[1,2\n", b"[]\n", b"7\n", b"\n", b"[" * 5000 + b"\n"):
                    out.write(junk)
                out.write(b'{"type":"something later","method":"something/later","jsonrpc":"2.0"}\n')
                out.flush()
                self.finish(rest)
            case "giant":
                out.write(b'{"type":"giant","text":"')
                for _ in range(GIANT >> 20):
                    out.write(b"x" * (1 << 20))
                out.write(b'"}\n')
                out.flush()
                self.finish(rest)
            case "flood":
                text = json.dumps({"type": "something later", "method": "something/later", "jsonrpc": "2.0"}) + "\n"
                for _ in range(FLOOD // 100):
                    out.write(text.encode() * 100)
                out.flush()
                self.finish(rest)
        return 0

    def finish(self, rest: list[dict[str, Any]]) -> None:
        self.options.fault = None
        self.lines = rest
        self.play()


def shape(line: Any) -> Any:
    """What makes two lines of the host equal, whatever ids and texts are in them."""
    if not isinstance(line, dict):
        return None
    request, response = line.get("request"), line.get("response")
    answered = response.get("request_id") if isinstance(response, dict) else line.get("id") if is_reply(line) else None
    subtype = request.get("subtype") if isinstance(request, dict) else None
    return line.get("type"), line.get("method"), subtype, answered


def is_reply(line: dict[str, Any]) -> bool:
    return "method" not in line and ("result" in line or "error" in line)


def is_prompt(line: Any) -> bool:
    if not isinstance(line, dict):
        return False
    return line.get("type") in ("user", "prompt") or line.get("method") in ("turn/start", "session/prompt")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("recording")
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--after", type=int, default=1)
    parser.add_argument("--child")
    parser.add_argument("--version", action="store_true")
    options, _ = parser.parse_known_args()
    with open(options.recording, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    if options.version:
        print(next((entry["version"] for entry in lines if "version" in entry), "0.0.0"))
        return 0
    return Replay(lines, options).play()


if __name__ == "__main__":
    sys.exit(main())

"""A program that stands between a right one and its reader, and spoils one thing: `python spoiled.py RULE COMMAND...`.

RULE is JSON. `where` names fields that a line must have for the rule to apply (an object matches inside), and then one
of: `set` fields to other values (a dotted path; null removes), `drop` it, say it `twice`, write text `before` or
`after` it, write `raw` text in its place, or `exit` with a code after it. `ignore` names fields of lines that the right
program is never given. `count` is how many lines it applies to, from the first (all of them, if it is missing).
`give` is a rule of its own, with `where` and `set`, for the lines that the right program is given.
`deaf` true: SIGTERM is ignored. `code` replaces the exit code. Plain Python: it stands for another vendor's program.
"""

import json
import signal
import subprocess
import sys
import threading
from typing import Any

RULE: dict[str, Any] = json.loads(sys.argv[1])


def matches(line: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(line, dict) and all(
            name in line and matches(line[name], inner) for name, inner in wanted.items()
        )
    return wanted == "*" or bool(line == wanted)


def changed(line: Any, rule: dict[str, Any]) -> Any:
    for path, value in rule.get("set", {}).items():
        *above, last = path.split(".")
        inner = line
        for name in above:
            inner = inner[int(name)] if isinstance(inner, list) else inner[name]
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return line


def parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def write(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def spoil(data: bytes) -> None:
    line = parsed(data)
    if "where" not in RULE or not matches(line, RULE["where"]) or RULE.get("count", 1) < 1:
        write(data)
        return
    if "count" in RULE:
        RULE["count"] -= 1
    if RULE.get("drop"):
        return
    if "raw" in RULE:
        write(RULE["raw"].encode())
        return
    write(RULE.get("before", "").encode())
    whole = json.dumps(changed(line, RULE)).encode() + b"\n"
    write(whole * (2 if RULE.get("twice") else 1) + RULE.get("after", "").encode())
    if "exit" in RULE:
        sys.exit(RULE["exit"])


def feed(program: subprocess.Popen[bytes]) -> None:
    assert program.stdin is not None
    for data in iter(sys.stdin.buffer.readline, b""):
        if "ignore" in RULE and matches(parsed(data), RULE["ignore"]):
            continue
        if "give" in RULE and matches(parsed(data), RULE["give"]["where"]):
            data = json.dumps(changed(parsed(data), RULE["give"])).encode() + b"\n"
        program.stdin.write(data)
        program.stdin.flush()
    program.stdin.close()


def main() -> None:
    if RULE.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    threading.Thread(target=feed, args=[program], daemon=True).start()
    for data in program.stdout:
        spoil(data)
    code = program.wait()
    sys.exit(RULE.get("code", code))


if __name__ == "__main__":
    main()

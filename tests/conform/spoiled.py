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


def said(rule: dict[str, Any], data: bytes) -> tuple[bytes, bool]:
    """What is written in place of a line, and whether the program ends with that."""
    line = parsed(data)
    if "where" not in rule or not matches(line, rule["where"]) or rule.get("count", 1) < 1:
        return data, False
    if "count" in rule:
        rule["count"] -= 1
    if rule.get("drop"):
        return b"", False
    if "raw" in rule:
        return rule["raw"].encode(), False
    whole = json.dumps(changed(line, rule)).encode() + b"\n"
    text = rule.get("before", "").encode() + whole * (2 if rule.get("twice") else 1) + rule.get("after", "").encode()
    return text, "exit" in rule


def given(rule: dict[str, Any], data: bytes) -> bytes:
    """What the right program is given in place of a line."""
    if "ignore" in rule and matches(parsed(data), rule["ignore"]):
        return b""
    if "give" in rule and matches(parsed(data), rule["give"]["where"]):
        return json.dumps(changed(parsed(data), rule["give"])).encode() + b"\n"
    return data


def feed(rule: dict[str, Any], program: subprocess.Popen[bytes]) -> None:
    assert program.stdin is not None
    for data in iter(sys.stdin.buffer.readline, b""):
        program.stdin.write(given(rule, data))
        program.stdin.flush()
    program.stdin.close()


def main() -> None:
    rule: dict[str, Any] = json.loads(sys.argv[1])
    if rule.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    threading.Thread(target=feed, args=[rule, program], daemon=True).start()
    for data in program.stdout:
        text, ends = said(rule, data)
        write(text)
        if ends:
            sys.exit(rule["exit"])
    code = program.wait()
    sys.exit(rule.get("code", code))


if __name__ == "__main__":
    main()

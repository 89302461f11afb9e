"""Recorded conversations, read by tests.

A worker transcript is a text file:

    # what it shows
    model:                          a scripted model, in TOML, indented
        [[reply]]
        text = "hello"
    env: NAME=value
    > INIT                          a line to the worker: an init with that model, id 1 and version 0.2.0,
    > INIT@0.5.0 {"task_id": "t"}   of another version, with more in its config,
    > {"type": "status", ...}       or anything else, as it stands
    < INIT_OK                       a line that must come now
    < 2/0 {"event": ...}            the event with send_id 2 and event_seq 0 (`_` is the next number)
    < RESULT 2 ok {...}             a result with ids and latencies; what is given is compared exactly
    < ERROR unknown Invalid JSON    a protocol error for that id, with a message that starts so
    <? heartbeat                    heartbeats may come here
    eof                             the client closes its output
    exit: 0

Lines to the worker that follow each other are written together, before what comes next is read. `"<int>"`, `"<str>"`
and `"<any>"` stand for values; `"<session>"` is the session's id.
"""

import json
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Transcript(NamedTuple):
    title: str
    model: str
    env: dict[str, str]
    steps: list[tuple[str, str]]
    """(">", line), ("<", line), ("<?", event), ("eof", "")"""
    exit_code: int


def read(path: Path) -> Transcript:
    lines = path.read_text().splitlines()
    title, model, env, exit_code = lines[0].removeprefix("# "), [], {}, 0
    steps: list[tuple[str, str]] = []
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        if line.startswith("    "):
            model.append(line)
        elif word == "env:":
            name, _, value = rest.partition("=")
            env[name] = value
        elif word == "exit:":
            exit_code = int(rest)
        elif word in (">", "<", "<?", "eof"):
            steps.append((word, rest))
        elif line.strip() and word not in ("model:", "#"):
            raise ValueError(f"{path.name}: {line!r} is no step")
    return Transcript(title, textwrap.dedent("\n".join(model)), env, steps, exit_code)


def transcripts(protocol: str) -> dict[str, Transcript]:
    return {path.stem: read(path) for path in sorted((HERE / protocol).glob("*.txt"))}


def request(text: str, model: str) -> bytes:
    """A line to the worker, written out."""
    if not text.startswith("INIT"):
        return text.encode().decode("unicode_escape").encode("latin-1") if text.startswith("\\") else text.encode()
    head, _, more = text.partition(" ")
    _, _, version = head.partition("@")
    config = {"model": model, "system_prompt": "Be brief.", "tools": ["bash", "read_file", "glob"]}
    body = {"type": "init", "id": "1", "protocol_version": version or "0.2.0", "config": config}
    config.update(json.loads(more or "{}"))
    return json.dumps(body).encode()


def expected(text: str) -> dict[str, Any]:
    """A line from the worker, written out."""
    word, _, rest = text.partition(" ")
    if word == "INIT_OK":
        return {"type": "init_ok", "id": "1", "session_id": "<session>", "protocol_version": rest or "0.2.0"}
    if word == "ERROR":
        id, _, message = rest.partition(" ")
        error = {"code": "protocol_error", "message": f"<starts>{message}", "retryable": False, "details": "<maybe>"}
        return {"type": "result", "id": id, "status": "error", "tool_calls_made": [], "iterations": 0, "error": error}
    if word == "RESULT":
        id, status, body = rest.split(" ", 2)
        latencies = dict.fromkeys(("model_latency_ms", "tool_latency_ms", "total_latency_ms"), "<int>")
        head = {"type": "result", "id": id, "status": status, "session_id": "<session>", "tool_calls_made": []}
        return {**head, **latencies, **json.loads(body)}
    if "/" in word:
        send, _, seq = word.partition("/")
        number = "<int>" if seq == "_" else int(seq)
        return {
            "type": "event",
            "event": json.loads(rest),
            "event_seq": number,
            "send_id": send,
            "session_id": "<session>",
        }
    wanted: dict[str, Any] = json.loads(text)
    return wanted


def fits(wanted: Any, got: Any, session: str) -> bool:
    if isinstance(wanted, str) and wanted.startswith("<starts>"):
        return isinstance(got, str) and got.startswith(wanted.removeprefix("<starts>"))
    match wanted:
        case "<any>":
            return True
        case "<int>":
            return type(got) is int and got >= 0
        case "<str>":
            return isinstance(got, str)
        case "<session>":
            return got == session
        case dict():
            wanted = {key: value for key, value in wanted.items() if value != "<maybe>" or key in got}
            return (
                isinstance(got, dict)
                and wanted.keys() == got.keys()
                and all(value == "<maybe>" or fits(value, got[key], session) for key, value in wanted.items())
            )
        case list():
            return (
                isinstance(got, list)
                and len(wanted) == len(got)
                and all(fits(one, other, session) for one, other in zip(wanted, got, strict=True))
            )
    return bool(wanted == got) and type(wanted) is type(got)

#!/usr/bin/env python3
"""A sidecar that does one thing wrong. `bad_sidecar.py NAME`; without a name it lists what it can do.

It uses nothing of treadle, so that a misreading of the protocol cannot be the same at both ends. `ACTS` has a list of
steps for each fault; in what a step says, `$RUN` and `$ORDER` (their ids) and `"$WORK_ORDER"` stand for what `begin` or
`order` has read.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[], object]

NOW = "2025-01-15T12:00:00.000Z"
OTHER = "00000000-0000-4000-8000-00000000dead"
HEARD: dict[bytes, bytes] = {}
ORDER: dict[str, Any] = {}


# Steps that send a message...


def send(data: bytes) -> None:
    for name, value in HEARD.items():
        data = data.replace(name, value)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def put(data: bytes) -> Step:
    return lambda: send(data)


def say(t: str, **body: Any) -> Step:
    return put(json.dumps({"t": t, **body}).encode() + b"\n")


def hello(**more: Any) -> Step:
    body = {
        "contract_version": "abp/v0.1",
        "backend": {"id": "bad", "backend_version": "1"},
        "capabilities": {"streaming": "native"},
        "mode": "mapped",
    }
    return say("hello", **{**body, **more})


def event(type: str = "assistant_message", ref_id: str = "$RUN", **body: Any) -> Step:
    return say("event", ref_id=ref_id, event={"ts": NOW, "type": type, **(body or {"text": "working"})})


def receipt(**more: Any) -> dict[str, Any]:
    body = {
        "meta": meta(),
        "backend": {"id": "bad"},
        "capabilities": {"streaming": "native"},
        "usage_raw": {},
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "trace": [],
        "artifacts": [],
        "verification": {"harness_ok": True},
        "outcome": "complete",
    }
    return {**body, **more}


def meta(**more: Any) -> dict[str, Any]:
    times = {"started_at": NOW, "finished_at": NOW, "duration_ms": 0}
    return {"run_id": "$RUN", "work_order_id": "$ORDER", "contract_version": "abp/v0.1", **times, **more}


def final(**more: Any) -> Step:
    return say("final", ref_id="$RUN", receipt=receipt(**more))


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in receipt().items() if key != name}


FINAL_LINE = json.dumps({"t": "final", "ref_id": "$RUN", "receipt": receipt()}).encode()
EVENT_AND_FINAL = FINAL_LINE.replace(b'{"t": "final"', b'{"t": "event", "t": "final"', 1) + b"\n"


def words(text: str) -> Step:
    """Write to stderr."""
    return lambda: print(text, file=sys.stderr, flush=True)


# Steps that hear something...


def next_one(kind: str) -> dict[str, Any]:
    """The next message of this kind; the program ends when there is none."""
    for line in sys.stdin.buffer:
        message: dict[str, Any] = json.loads(line)
        if message["t"] == kind:
            return message
    sys.exit(0)


def hear(kind: str) -> Step:
    return lambda: next_one(kind)


def order() -> None:
    message = next_one("run")
    ORDER.update(message["work_order"])
    HEARD[b"$RUN"] = message["id"].encode()
    HEARD[b"$ORDER"] = ORDER["id"].encode()
    HEARD[b'"$WORK_ORDER"'] = json.dumps(ORDER).encode()


def begin() -> None:
    hello()()
    order()


def answer_ping() -> None:
    say("pong", seq=next_one("ping")["seq"])()


# Steps that do something...


def forever() -> None:
    while True:
        time.sleep(3600)


def deaf() -> None:
    """Ignore requests to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def leave(code: int) -> Step:
    return lambda: sys.exit(code)


def close(descriptor: int) -> Step:
    return lambda: os.close(descriptor)


def start(code: str, stdout: int | None = None) -> Step:
    """Start another process, which no one ends."""
    return lambda: subprocess.Popen([sys.executable, "-c", code], stdout=stdout)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def spin() -> None:
    while True:
        pass


def write(name: str) -> Step:
    """Write a file with the task in it."""

    def do() -> None:
        with open(os.path.join(ORDER["workspace"]["root"], name), "w") as file:
            file.write(ORDER["task"] + "\n")

    return do


def obey() -> None:
    """Run the task as a command in the workspace."""
    subprocess.run(["sh", "-c", ORDER["task"]], cwd=ORDER["workspace"]["root"], stdout=subprocess.DEVNULL)


def make_noise() -> None:
    for number in range(20_000):
        print("noise", number, "x" * 100, file=sys.stderr)


def flood() -> None:
    """A flood of events: 20,000, or as many as the task says."""
    number = int(ORDER["task"]) if ORDER["task"].isdigit() else 20_000
    one = {"ts": NOW, "type": "assistant_delta", "text": "word "}
    run = HEARD[b"$RUN"].decode()
    line = json.dumps({"t": "event", "ref_id": run, "event": one}, separators=(",", ":")).encode() + b"\n"
    for _ in range(number // 500):
        send(line * 500)
    send(line * (number % 500))


def work() -> None:
    """Work for as many seconds as the task says, and answer pings and cancel meanwhile."""
    end = time.monotonic() + float(ORDER["task"])
    while time.monotonic() < end:
        EVENT()
        if select.select([0], [], [], 0.05)[0]:
            message = json.loads(sys.stdin.buffer.readline() or b'{"t":"cancel"}')
            if message["t"] == "ping":
                say("pong", seq=message["seq"])()
            if message["t"] == "cancel":
                return


EVENT, FINAL = event(), final()
MADE = event("file_changed", path="made.txt", summary="added")
BASH = event("tool_call", tool_name="bash", input={"command": "ls"}, tool_use_id="c1")
MADE_AND_MISSING = [{"kind": "file", "path": "made.txt"}, {"kind": "log", "path": "none.log"}]
IN_ITS_OWN_SESSION = "import os, signal, time; signal.signal(15, 1); os.setsid(); time.sleep(3600)"
DEAF_CHILD = "import signal, time; signal.signal(15, 1); time.sleep(3600)"

ACTS: dict[str, list[Step]] = {
    "good": [
        begin,
        event("run_started", message="starting"),
        write("made.txt"),
        MADE,
        event(text="done"),
        event("run_completed", message="done"),
        FINAL,
    ],
    "reports_no_usage": [begin, final(usage={})],
    # Before and instead of hello...
    "blank_before_hello": [put(b"\n"), begin, FINAL],
    "log_before_hello": [put(b"INFO starting up\n"), begin, FINAL],
    "bom_before_hello": [put(b"\xef\xbb\xbf"), begin, FINAL],
    "event_before_hello": [event(ref_id=OTHER), begin, FINAL],
    "unknown_before_hello": [say("greeting", text="hi"), begin, FINAL],
    "fatal_instead_of_hello": [say("fatal", error="ANTHROPIC_API_KEY not set")],
    "exit_before_hello": [words("cannot find module 'sdk'"), leave(7)],
    "no_hello": [words("still loading"), forever],
    "no_hello_and_deaf": [deaf, forever],
    "half_a_hello": [put(b'{"t":"hello","contract_ver'), forever],
    "output_closed_before_hello": [close(1), forever],
    "hello_in_an_array": [put(b'[{"t":"hello"}]\n'), forever],
    # In the hello...
    "hello_without_version": [say("hello", backend={"id": "bad"}, capabilities={}), order, FINAL],
    "hello_without_backend": [say("hello", contract_version="abp/v0.1", capabilities={}), order, FINAL],
    "hello_without_capabilities": [say("hello", contract_version="abp/v0.1", backend={"id": "bad"}), order, FINAL],
    "other_major_version": [hello(contract_version="abp/v1.0"), order, FINAL],
    "other_minor_version": [hello(contract_version="abp/v0.9"), order, FINAL],
    "version_is_nonsense": [hello(contract_version="lol"), order, FINAL],
    "unknown_capability": [hello(capabilities={"streaming": "native", "telepathy": "native"}), order, FINAL],
    "unknown_support_level": [hello(capabilities={"streaming": "superb"}), order, FINAL],
    "mode_is_null": [hello(mode=None), order, FINAL],
    "mode_is_unknown": [hello(mode="sideways"), order, FINAL],
    "unknown_fields": [
        hello(colour="red", backend={"id": "bad", "future": 1}),
        order,
        event(text="hi", mood="good"),
        final(stream_equivalent=True),
    ],
    "event_before_run": [hello(), event(ref_id=OTHER), order, FINAL],
    "exit_after_hello": [hello(), words("uncaught exception"), leave(1)],
    # Lines during a run...
    "blank_line": [begin, put(b"\n   \n"), FINAL],
    "not_json": [begin, EVENT, put(b"DEBUG something\n"), FINAL],
    "not_a_number": [begin, event("tool_call", tool_name="t", input=float("nan")), FINAL],
    "invalid_utf8": [begin, put(b'{"t":"fatal","ref_id":"$RUN","error":"\xff"}\n'), FINAL],
    "too_deep": [begin, put(b'{"t":"event","ref_id":"$RUN","event":' + b"[" * 100_000 + b"\n"), FINAL],
    "line_of_20_mb": [begin, lambda: event(text="x" * 20_000_000)(), FINAL],
    "windows_line_ends": [begin, put(FINAL_LINE + b"\r\n")],
    "unknown_message": [begin, say("progress", ref_id="$RUN", percent=50), FINAL],
    "unknown_event": [begin, event("usage", input_tokens=3), FINAL],
    "unknown_error_code": [begin, event("error", message="m", error_code="quantum_failure"), FINAL],
    "time_is_out_of_range": [begin, event("warning", ts="9999-12-31T23:59:59-01:00", message="m"), FINAL],
    "path_is_none": [begin, event("file_changed", path="a\0b", summary="modified"), FINAL],
    "time_is_nonsense": [begin, event("warning", ts="yesterday", message="m"), FINAL],
    "pong_that_was_not_asked_for": [begin, say("pong", seq=99), FINAL],
    "ping": [begin, say("ping", seq=1), FINAL],
    "hello_again": [begin, hello(), FINAL],
    "run_echoed": [begin, say("run", id="$RUN", work_order="$WORK_ORDER"), FINAL],
    "wrong_ref_on_event": [begin, event(ref_id=OTHER), FINAL],
    "wrong_ref_on_final": [begin, say("final", ref_id=OTHER, receipt=receipt()), forever],
    "wrong_ref_on_fatal": [begin, say("fatal", ref_id=OTHER, error="boom"), forever],
    "no_ref_on_event": [begin, say("event", event={"ts": NOW, "type": "warning", "message": "m"}), FINAL],
    # Ends...
    "fatal": [begin, EVENT, say("fatal", ref_id="$RUN", error="model refused", error_code="backend_auth_failed")],
    "fatal_without_ref": [begin, say("fatal", error="ANTHROPIC_API_KEY not set")],
    "fatal_with_unknown_code": [begin, say("fatal", ref_id="$RUN", error="odd", error_code="quantum_failure")],
    "exit_without_final": [begin, EVENT, words("out of memory"), leave(3)],
    "clean_exit_without_final": [begin],
    "killed": [begin, EVENT, die],
    "killed_at_work": [begin, write("made.txt"), MADE, event(text="I chose tabs because of make."), die],
    "exit_inside_a_line": [begin, EVENT, put(b'{"t":"final","ref_id":"$RUN')],
    "exit_with_an_orphan_on_its_output": [begin, EVENT, start(IN_ITS_OWN_SESSION), leave(4)],
    "output_closed": [begin, EVENT, close(1), forever],
    "input_closed": [begin, close(0), FINAL],
    "final_without_newline": [begin, put(FINAL_LINE)],
    "final_twice": [begin, FINAL, final(outcome="failed")],
    "talk_after_final": [begin, FINAL, put(b"thanks, bye\n"), EVENT],
    "no_exit_after_final": [deaf, begin, FINAL, forever],
    "orphans_after_final": [begin, start(IN_ITS_OWN_SESSION, subprocess.DEVNULL), FINAL],
    "half_a_surrogate_pair": [
        begin,
        put(
            b'{"t":"event","ref_id":"$RUN","event":{"ts":"2025-01-15T12:00:00Z","type":"warning","message":"a\\ud83c"}}\n'
        ),
        FINAL,
    ],
    "event_that_is_also_a_final": [begin, put(EVENT_AND_FINAL), forever],
    # Receipts...
    "final_without_a_receipt": [begin, say("final", ref_id="$RUN")],
    "receipt_without_an_outcome": [begin, say("final", ref_id="$RUN", receipt=without("outcome"))],
    "receipt_without_a_verification": [begin, say("final", ref_id="$RUN", receipt=without("verification"))],
    "empty_receipt": [begin, say("final", ref_id="$RUN", receipt={})],
    "receipt_is_text": [begin, say("final", ref_id="$RUN", receipt="done")],
    "receipt_with_other_ids": [begin, final(meta=meta(run_id=OTHER))],
    "receipt_with_ids_that_are_none": [begin, final(meta=meta(run_id="run-1", work_order_id="7"))],
    "wrong_hash": [begin, final(receipt_sha256="0" * 64)],
    "outcome_is_unknown": [begin, final(outcome="splendid")],
    "negative_usage": [begin, final(usage={"input_tokens": -5, "output_tokens": 4})],
    "says_it_failed": [begin, final(outcome="failed")],
    "names_artifacts": [begin, write("made.txt"), MADE, final(artifacts=MADE_AND_MISSING)],
    "says_its_task": [begin, lambda: event(text=ORDER["task"])(), FINAL],
    # Lies...
    "says_what_it_did_not_do": [
        begin,
        event("file_changed", path="promised.txt", summary="added"),
        event("command_executed", command="make test", exit_code=0, output_preview="ok"),
        FINAL,
    ],
    "does_what_it_does_not_say": [begin, write("secret.txt"), FINAL],
    "runs_its_task_and_does_not_say_so": [begin, obey, FINAL],
    "calls_a_denied_tool": [begin, BASH, hear("cancel"), FINAL],
    "calls_a_denied_tool_and_goes_on": [begin, BASH, forever],
    "changes_a_denied_file": [begin, event("file_changed", path=".env", summary="modified"), forever],
    "spends_too_much": [
        begin,
        event("usage", input_tokens=10, estimated_cost_usd=99.0),
        hear("cancel"),
        final(outcome="partial", usage={"estimated_cost_usd": 99.0}),
    ],
    # Time...
    "hang": [begin, EVENT, forever],
    "hang_and_deaf": [deaf, begin, EVENT, start(DEAF_CHILD), forever],
    "spin": [begin, EVENT, spin],
    "good_and_then_hangs": [begin, write("made.txt"), MADE, forever],
    "works_for_a_while": [begin, work, write("made.txt"), MADE, FINAL],
    "answers_pings_and_then_stops": [begin, answer_ping, answer_ping, EVENT, forever],
    "answers_pings_only_after_the_run": [begin, EVENT, *[hear("ping")] * 3, FINAL, say("pong", seq=1)],
    "stops_when_cancelled": [begin, EVENT, hear("cancel"), final(outcome="partial")],
    "fatal_when_cancelled": [begin, EVENT, hear("cancel"), say("fatal", ref_id="$RUN", error="stopped as asked")],
    "noisy_on_stderr": [begin, make_noise, FINAL],
    "flood": [begin, flood, FINAL],
}


def main() -> None:
    steps = ACTS.get(sys.argv[1]) if len(sys.argv) == 2 else None
    if steps is None:
        print(*sorted(ACTS), sep="\n")
        sys.exit(2)
    for step in steps:
        step()


if __name__ == "__main__":
    main()

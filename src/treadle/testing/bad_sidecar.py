#!/usr/bin/env python3
"""A sidecar that does one thing wrong. `bad_sidecar.py NAME`; without a name it lists what it can do.

It knows nothing of treadle, only the protocol, so that nothing can be wrong in the same way at both ends. Functions
that start a run call `run()`, which waits for the order; what they do before or instead of that is the misbehaviour.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

NOW = "2025-01-15T12:00:00.000Z"
ACTS: dict[str, Callable[[], None]] = {}
ORDER: dict[str, Any] = {}


def act(function: Callable[[], None]) -> Callable[[], None]:
    ACTS[function.__name__] = function
    return function


def put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(t: str, **body: Any) -> None:
    put(json.dumps({"t": t, **body}).encode() + b"\n")


def hello(**more: Any) -> None:
    body = {
        "contract_version": "abp/v0.1",
        "backend": {"id": "bad", "backend_version": "1"},
        "capabilities": {"streaming": "native"},
        "mode": "mapped",
    }
    say("hello", **{**body, **more})


def hear(*kinds: str) -> dict[str, Any]:
    """The next message of one of these kinds; the program ends when there is none."""
    for line in sys.stdin.buffer:
        message: dict[str, Any] = json.loads(line)
        if message["t"] in kinds:
            return message
    sys.exit(0)


def run() -> str:
    """Say hello, wait for the order; gives the id of the run."""
    hello()
    return order()


def order() -> str:
    message = hear("run")
    ORDER.update(message["work_order"])
    return str(message["id"])


def event(ref: str, type: str = "assistant_message", **body: Any) -> None:
    say("event", ref_id=ref, event={"ts": NOW, "type": type, **(body or {"text": "working"})})


def receipt(ref: str, **more: Any) -> dict[str, Any]:
    body = {
        "meta": {
            "run_id": ref,
            "work_order_id": ORDER["id"],
            "contract_version": "abp/v0.1",
            "started_at": NOW,
            "finished_at": NOW,
            "duration_ms": 0,
        },
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


def final(ref: str, **more: Any) -> None:
    say("final", ref_id=ref, receipt=receipt(ref, **more))


def forever() -> None:
    while True:
        time.sleep(3600)


def deaf() -> None:
    """Ignore being asked to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def first(data: bytes) -> None:
    """Say this, and then behave."""
    put(data)
    final(run())


def greet(more: dict[str, Any]) -> None:
    """Behave, but with this in the hello."""
    hello(**more)
    final(order())


def happen(body: dict[str, Any]) -> None:
    """Behave, but with this event."""
    ref = run()
    event(ref, **body)
    final(ref)


def claim(more: dict[str, Any]) -> None:
    """Behave, but with this in the receipt."""
    final(run(), **more)


ROWS: dict[str, tuple[Callable[[Any], None], Any]] = {
    "blank_before_hello": (first, b"\n"),
    "log_before_hello": (first, b"INFO starting up\n"),
    "bom_before_hello": (first, b"\xef\xbb\xbf"),
    "other_major_version": (greet, {"contract_version": "abp/v1.0"}),
    "version_is_nonsense": (greet, {"contract_version": "lol"}),
    "other_minor_version": (greet, {"contract_version": "abp/v0.9"}),
    "unknown_capability": (greet, {"capabilities": {"streaming": "native", "telepathy": "native"}}),
    "unknown_support_level": (greet, {"capabilities": {"streaming": "superb"}}),
    "mode_is_null": (greet, {"mode": None}),
    "mode_is_unknown": (greet, {"mode": "sideways"}),
    "unknown_event": (happen, {"type": "usage", "input_tokens": 3}),
    "unknown_error_code": (happen, {"type": "error", "message": "m", "error_code": "quantum_failure"}),
    "time_is_nonsense": (happen, {"ts": "yesterday", "type": "warning", "message": "m"}),
    "wrong_hash": (claim, {"receipt_sha256": "0" * 64}),
    "outcome_is_unknown": (claim, {"outcome": "splendid"}),
    "negative_usage": (claim, {"usage": {"input_tokens": -5, "output_tokens": 4}}),
    "says_it_failed": (claim, {"outcome": "failed"}),
}


# Before and instead of hello...


@act
def event_before_hello() -> None:
    event("550e8400-e29b-41d4-a716-446655440000")
    final(run())


@act
def fatal_instead_of_hello() -> None:
    say("fatal", error="ANTHROPIC_API_KEY not set")


@act
def unknown_before_hello() -> None:
    say("greeting", text="hi")
    final(run())


@act
def exit_before_hello() -> None:
    print("cannot find module 'sdk'", file=sys.stderr, flush=True)
    sys.exit(7)


@act
def no_hello() -> None:
    print("still loading", file=sys.stderr, flush=True)
    forever()


@act
def no_hello_and_deaf() -> None:
    deaf()
    forever()


@act
def half_a_hello() -> None:
    put(b'{"t":"hello","contract_ver')
    forever()


@act
def output_closed_before_hello() -> None:
    os.close(1)
    forever()


@act
def hello_in_an_array() -> None:
    put(b'[{"t":"hello"}]\n')
    forever()


@act
def hello_without_version() -> None:
    say("hello", backend={"id": "bad"}, capabilities={})
    final(order())


@act
def unknown_fields() -> None:
    hello(colour="red", backend={"id": "bad", "future": 1})
    ref = order()
    event(ref, text="hi", mood="good")
    final(ref, stream_equivalent=True)


@act
def hello_without_backend() -> None:
    say("hello", contract_version="abp/v0.1", capabilities={})
    final(order())


@act
def event_before_run() -> None:
    hello()
    event("550e8400-e29b-41d4-a716-446655440000")
    final(order())


@act
def exit_after_hello() -> None:
    hello()
    print("uncaught exception", file=sys.stderr, flush=True)
    sys.exit(1)


# Lines that are wrong during a run...


@act
def blank_line() -> None:
    ref = run()
    put(b"\n   \n")
    final(ref)


@act
def not_json() -> None:
    ref = run()
    event(ref)
    put(b"DEBUG something\n")
    final(ref)


@act
def not_a_number() -> None:
    ref = run()
    put(
        b'{"t":"event","ref_id":"%s","event":{"ts":"x","type":"tool_call","tool_name":"t","input":NaN}}\n'
        % ref.encode()
    )
    final(ref)


@act
def invalid_utf8() -> None:
    ref = run()
    put(b'{"t":"event","ref_id":"' + ref.encode() + b'","event":{"ts":"x","type":"warning","message":"\xff\xfe"}}\n')
    final(ref)


@act
def too_deep() -> None:
    ref = run()
    put(b'{"t":"event","ref_id":"%s","event":' % ref.encode() + b"[" * 100_000 + b"\n")
    final(ref)


@act
def unknown_message() -> None:
    ref = run()
    say("progress", ref_id=ref, percent=50)
    final(ref)


@act
def pong_that_nobody_asked_for() -> None:
    ref = run()
    say("pong", seq=99)
    final(ref)


@act
def ping() -> None:
    ref = run()
    say("ping", seq=1)
    final(ref)


@act
def hello_again() -> None:
    ref = run()
    hello()
    final(ref)


@act
def run_echoed() -> None:
    ref = run()
    say("run", id=ref, work_order=ORDER)
    final(ref)


@act
def wrong_ref_on_event() -> None:
    ref = run()
    event("00000000-0000-4000-8000-00000000dead")
    final(ref)


@act
def wrong_ref_on_final() -> None:
    run()
    say("final", ref_id="00000000-0000-4000-8000-00000000dead", receipt=receipt("x"))
    forever()


@act
def wrong_ref_on_fatal() -> None:
    run()
    say("fatal", ref_id="00000000-0000-4000-8000-00000000dead", error="boom")
    forever()


@act
def no_ref_on_event() -> None:
    ref = run()
    say("event", event={"ts": NOW, "type": "warning", "message": "m"})
    final(ref)


@act
def windows_line_ends() -> None:
    ref = run()
    put(json.dumps({"t": "final", "ref_id": ref, "receipt": receipt(ref)}).encode() + b"\r\n")


@act
def line_of_20_mb() -> None:
    ref = run()
    event(ref, text="x" * 20_000_000)
    final(ref)


# Ends that are wrong...


@act
def fatal() -> None:
    ref = run()
    event(ref)
    say("fatal", ref_id=ref, error="model refused", error_code="backend_auth_failed")


@act
def fatal_without_ref() -> None:
    run()
    say("fatal", error="ANTHROPIC_API_KEY not set")


@act
def fatal_with_unknown_code() -> None:
    ref = run()
    say("fatal", ref_id=ref, error="odd", error_code="quantum_failure")


@act
def exit_without_final() -> None:
    ref = run()
    event(ref)
    print("out of memory", file=sys.stderr, flush=True)
    sys.exit(3)


@act
def clean_exit_without_final() -> None:
    run()


@act
def killed() -> None:
    event(run())
    os.kill(os.getpid(), signal.SIGKILL)


@act
def exit_inside_a_line() -> None:
    ref = run()
    event(ref)
    put(b'{"t":"final","ref_id":"' + ref.encode())
    sys.exit(0)


@act
def exit_with_an_orphan_on_its_output() -> None:
    event(run())
    subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(3600)"])
    sys.exit(4)


@act
def output_closed() -> None:
    event(run())
    os.close(1)
    forever()


@act
def input_closed() -> None:
    ref = run()
    os.close(0)
    final(ref)


@act
def final_without_newline() -> None:
    ref = run()
    put(json.dumps({"t": "final", "ref_id": ref, "receipt": receipt(ref)}).encode())


@act
def final_twice() -> None:
    ref = run()
    final(ref)
    final(ref, outcome="failed")


@act
def talk_after_final() -> None:
    ref = run()
    final(ref)
    put(b"thanks, bye\n")
    event(ref)


@act
def no_exit_after_final() -> None:
    deaf()
    final(run())
    forever()


@act
def orphans_after_final() -> None:
    ref = run()
    command = "import os, signal, time; signal.signal(15, 1); os.setsid(); time.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.DEVNULL)
    final(ref)


# Receipts that are wrong...


@act
def empty_receipt() -> None:
    ref = run()
    say("final", ref_id=ref, receipt={})


@act
def receipt_is_text() -> None:
    ref = run()
    say("final", ref_id=ref, receipt="done")


@act
def receipt_with_other_ids() -> None:
    ref = run()
    final(ref, meta={**receipt(ref)["meta"], "run_id": "00000000-0000-4000-8000-00000000dead"})


@act
def receipt_with_ids_that_are_none() -> None:
    ref = run()
    final(ref, meta={**receipt(ref)["meta"], "run_id": "run-1", "work_order_id": "7"})


# Lies...


@act
def says_what_it_did_not_do() -> None:
    ref = run()
    event(ref, "file_changed", path="promised.txt", summary="added")
    event(ref, "command_executed", command="make test", exit_code=0, output_preview="ok")
    final(ref)


@act
def does_what_it_does_not_say() -> None:
    ref = run()
    with open(os.path.join(ORDER["workspace"]["root"], "secret.txt"), "w") as file:
        file.write("hidden\n")
    final(ref)


@act
def calls_a_denied_tool() -> None:
    ref = run()
    event(ref, "tool_call", tool_name="bash", input={"command": "rm -rf /"}, tool_use_id="c1")
    message = hear("cancel")
    say("final", ref_id=message["ref_id"], receipt=receipt(ref, outcome="complete"))


@act
def changes_a_denied_file() -> None:
    ref = run()
    event(ref, "file_changed", path=".env", summary="modified")
    forever()


@act
def spends_too_much() -> None:
    ref = run()
    event(ref, "usage", input_tokens=10, estimated_cost_usd=99.0)
    hear("cancel")
    final(ref, outcome="partial", usage={"estimated_cost_usd": 99.0})


# Time...


@act
def hang() -> None:
    event(run())
    forever()


@act
def hang_and_deaf() -> None:
    deaf()
    event(run())
    subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(3600)"])
    forever()


@act
def spin() -> None:
    event(run())
    while True:
        pass


@act
def answers_pings_and_then_stops() -> None:
    ref = run()
    for _ in range(2):
        say("pong", seq=hear("ping")["seq"])
    event(ref)
    forever()


@act
def answers_pings_only_after_the_run() -> None:
    ref = run()
    event(ref)
    time.sleep(1.0)
    final(ref)
    say("pong", seq=hear("ping")["seq"])


@act
def stops_when_cancelled() -> None:
    ref = run()
    event(ref)
    hear("cancel")
    final(ref, outcome="partial")


@act
def fatal_when_cancelled() -> None:
    ref = run()
    event(ref)
    hear("cancel")
    say("fatal", ref_id=ref, error="stopped as asked")


@act
def ignores_cancel() -> None:
    event(run())
    forever()


@act
def noisy_on_stderr() -> None:
    ref = run()
    for number in range(20_000):
        print("noise", number, "x" * 100, file=sys.stderr)
    final(ref)


@act
def flood() -> None:
    """Events without end to speak of: 100,000, or as many as the task says."""
    ref = run()
    number = int(ORDER["task"]) if ORDER["task"].isdigit() else 100_000
    one = {"t": "event", "ref_id": ref, "event": {"ts": NOW, "type": "assistant_delta", "text": "word "}}
    line = json.dumps(one, separators=(",", ":")).encode() + b"\n"
    for _ in range(number // 500):
        put(line * 500)
    put(line * (number % 500))
    final(ref)


@act
def good() -> None:
    """Nothing wrong: for comparison."""
    ref = run()
    event(ref, "run_started", message="starting")
    with open(os.path.join(ORDER["workspace"]["root"], "made.txt"), "w") as file:
        file.write(ORDER["task"] + "\n")
    event(ref, "file_changed", path="made.txt", summary="added")
    event(ref, "assistant_message", text="done")
    event(ref, "run_completed", message="done")
    final(ref)


@act
def good_and_then_hangs() -> None:
    """The work is done, but nobody is told."""
    ref = run()
    with open(os.path.join(ORDER["workspace"]["root"], "made.txt"), "w") as file:
        file.write("made\n")
    event(ref, "file_changed", path="made.txt", summary="added")
    forever()


@act
def works_for_a_while() -> None:
    """Like `good`, but takes as many seconds as the task says, and answers pings and cancel meanwhile."""
    ref = run()
    event(ref, "run_started", message="starting")
    end = time.monotonic() + float(ORDER["task"])
    while time.monotonic() < end:
        event(ref, text="working")
        if select.select([0], [], [], 0.05)[0]:
            message = json.loads(sys.stdin.buffer.readline() or b'{"t":"cancel"}')
            if message["t"] == "ping":
                say("pong", seq=message["seq"])
            if message["t"] == "cancel":
                break
    with open(os.path.join(ORDER["workspace"]["root"], "made.txt"), "w") as file:
        file.write("made\n")
    event(ref, "file_changed", path="made.txt", summary="added")
    final(ref)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name in ROWS:
        do, what = ROWS[name]
        do(what)
    elif name in ACTS:
        ACTS[name]()
    else:
        print(*sorted([*ROWS, *ACTS]), sep="\n")
        sys.exit(2)


if __name__ == "__main__":
    main()

"""One-shot conversations: a prompt with every kind of record, prompts written ahead, and a host that takes part."""

import msgspec

from treadle.wire.common.connection import Conversation
from treadle.wire.oneshot.connection import Record, RunResult, stream_event, text_delta, usage

_SESSION = "550e8400-e29b-41d4-a716-446655440000"


def _prompt(text: str) -> tuple[str, Record]:
    return "script", {"type": "user", "message": {"role": "user", "content": text}}


def _block(role: str, block: Record) -> tuple[str, Record]:
    return "run", {"type": role, "message": {"role": role, "content": [block]}, "session_id": _SESSION}


def _result(text: str) -> tuple[str, Record]:
    result = RunResult(result=text, session_id=_SESSION, subtype="success", is_error=False, usage=usage(input_tokens=3))
    return "run", msgspec.to_builtins(result)


_ASK: Record = {"subtype": "can_use_tool", "tool_name": "bash", "input": {"command": "ls"}}

SAMPLES: list[Conversation] = [
    [
        _prompt("list the files \u2028 please"),
        ("run", {"type": "system", "subtype": "init", "cwd": "/", "session_id": _SESSION}),
        ("run", {"type": "transcript_mirror", "filePath": "/x.jsonl", "entries": [{"type": "user", "uuid": "u1"}]}),
        ("run", stream_event(text_delta("Two "), _SESSION)),
        _block("assistant", {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}),
        _block("user", {"type": "tool_result", "tool_use_id": "c1", "content": "a b", "is_error": False}),
        _result("Two files."),
        ("run", stream_event({"type": "background_task_event", "background_task_event": {}}, _SESSION)),
        _prompt("and now?"),
        ("script", {"type": "keep_alive"}),
        _result("Still two."),
    ],
    [_prompt("one"), _prompt("two"), _result("1"), _result("2")],
    [
        ("script", {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}}),
        ("run", {"type": "control_response", "response": {"subtype": "success", "request_id": "r1"}}),
        _prompt("go"),
        ("run", {"type": "control_request", "request_id": "q1", "request": _ASK}),
        ("run", {"type": "control_cancel_request", "request_id": "q1"}),
        ("run", {"type": "control_request", "request_id": "q2", "request": _ASK}),
        ("script", {"type": "control_response", "response": {"subtype": "success", "request_id": "q2"}}),
        ("script", {"type": "control_cancel_request", "request_id": "r1"}),
        _result("done"),
    ],
]
CROSSINGS = [
    (SAMPLES[1][:1], _prompt("early"), _result("1")),
    (SAMPLES[2][:4], ("script", {"type": "keep_alive"}), SAMPLES[2][4]),
]

"""What a sender of typed messages may say: one message of each type, each accepted at once."""

from typing import Any

from treadle.wire.common.connection import Conversation

MESSAGES: list[dict[str, Any]] = [
    {"type": "task_claim", "from": "coder", "msg_id": "m1", "task": "3.2", "symbols": ["F12"], "capsules": []},
    {"type": "task_result", "from": "coder", "msg_id": "m2", "task": "3.2", "status": "pass", "criteria": [1, 2]},
    {"type": "gate_report", "from": "gate", "msg_id": "m3", "gate_id": "g", "status": "fail", "report_ref": "r.md"},
    {"type": "escalation", "from": "coder", "msg_id": "m4", "reason": "stuck", "severity": "info", "refs": ["C3"]},
    {"type": "question", "from": "coder", "msg_id": "m5", "question": "which port? \u2028", "reply_to": "m4"},
    {"type": "checkpoint", "from": "lead", "msg_id": "m6", "wave": "1", "state": "started", "ts": "now"},
]
SAMPLES: list[Conversation] = [[("sender", message)] for message in MESSAGES]

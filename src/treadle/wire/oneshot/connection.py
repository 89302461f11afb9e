"""A one-shot run as a conversation of JSON lines: prompts in (`--input-format stream-json`), records and results out.

Roles: `run`, our program, and `script`, which started it. Each prompt gets exactly one result; further prompts may be
written ahead of it. What `--output-format json` and `stream-json` write is the same conversation; its one prompt
is given on the command line, which `prompted` records.
"""

from typing import Any

import msgspec

from treadle.errors import InvalidJson
from treadle.wire.common import connection as base
from treadle.wire.common.connection import json_line
from treadle.wire.oneshot.records import Record, RunResult

PROMPT = "prompt"
RESULT = "result"
LAST_RESULT = "the result of the only open prompt"
TOOL_RESULT = "tool result"
"""A prompt and the result of a tool are both of type `user`, as in the model service's own messages."""
UNKNOWN = "unknown"
CONTROL = ("control_request", "control_response", "control_cancel_request")
WRITTEN = ("system", "stream_event", "assistant", "transcript_mirror", TOOL_RESULT)
READY, ANSWERING = "ready", "answering"
_STATELESS = (*CONTROL, *WRITTEN, "keep_alive", UNKNOWN)
"""Messages that change no state: control may come at any time, and background tasks may report between prompts."""

_TYPES = (*CONTROL, *WRITTEN, RESULT, "keep_alive")


class Connection(base.LineConnection[Any]):
    """Messages are records as they are on the line; `send` also takes a `Result`. Beside the state, it counts the
    prompts that have no result yet."""

    SAYS = {
        "run": frozenset({*WRITTEN, *CONTROL, RESULT, LAST_RESULT}),
        "script": frozenset({PROMPT, *CONTROL, "keep_alive", UNKNOWN}),
    }
    START = READY
    TRANSITIONS = {
        (READY, PROMPT): ANSWERING,
        (ANSWERING, PROMPT): ANSWERING,
        (ANSWERING, RESULT): ANSWERING,
        (ANSWERING, LAST_RESULT): READY,
        **{(state, kind): state for state in (READY, ANSWERING) for kind in _STATELESS},
    }
    """Every prompt is owed one result. Prompts may be written ahead, so only the result of the last open one leads back
    to `ready`; a result when nothing is owed is illegal, and a script that counts them can rely on that."""

    def __init__(self, role: str, *, cap: int = base.CAP) -> None:
        super().__init__(role, cap=cap)
        self._unanswered = 0

    def kind(self, sender: str, message: Any) -> str:
        name = RESULT if isinstance(message, RunResult) else message.get("type")
        if name == RESULT and self._unanswered == 1:
            return LAST_RESULT
        if name == "user":
            return PROMPT if sender == "script" else TOOL_RESULT
        return name if name in _TYPES else UNKNOWN

    def prompted(self) -> None:
        """A prompt was given outside this wire, and its result is owed on this wire."""
        self._unanswered += 1
        self.state = ANSWERING

    def withdrawn(self) -> None:
        """The script took a prompt back before it was begun: no result is owed for it."""
        self._unanswered -= 1
        self.state = ANSWERING if self._unanswered else READY

    def read(self, line: bytes) -> Record:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidJson(f"not JSON: {error}") from error
        if not isinstance(record, dict):
            raise InvalidJson("not a JSON object")
        return record

    def encode(self, message: Any) -> bytes:
        return json_line(message)

    def refusal(self, sender: str, message: Any) -> str | None:
        if self.kind(sender, message) == UNKNOWN and sender != self.role:
            return None  # from a later version: skipped
        return super().refusal(sender, message)

    def record(self, sender: str, message: Any) -> None:
        kind = self.kind(sender, message)
        super().record(sender, message)
        self._unanswered += {PROMPT: 1, RESULT: -1, LAST_RESULT: -1}.get(kind, 0)

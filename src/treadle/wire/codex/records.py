"""The lines of `codex exec --json`, for versions of Codex without an app-server. It reports, but cannot ask anything.

The prompt goes in as plain text up to the end of input; one JSON object per line comes out.
"""

from typing import Any

import msgspec

from treadle.errors import InvalidJson, LineTooLong, RemoteProtocolError
from treadle.wire.common.framing import LINE_CAP, LineSplitter

_decode = msgspec.json.Decoder().decode
_NAMES = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "agent_message": "agentMessage",
    "mcp_tool_call": "mcpToolCall",
    "web_search": "webSearch",
}
_FIELDS = {"aggregated_output": "aggregatedOutput", "exit_code": "exitCode"}
_USAGE = {
    "input_tokens": "inputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_input_tokens": "cacheWriteInputTokens",
    "output_tokens": "outputTokens",
    "reasoning_output_tokens": "reasoningOutputTokens",
}


class CodexOutput:
    """The program's output. `send` returns the prompt as plain bytes."""

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._lines = LineSplitter(cap)

    def receive(self, data: bytes) -> list[dict[str, Any] | RemoteProtocolError]:
        return [_record(line) for line in self._lines.feed(data) if isinstance(line, LineTooLong) or line.strip()]

    def end(self) -> list[dict[str, Any] | RemoteProtocolError]:
        rest = self._lines.end()
        if not rest.strip():
            return []
        record = _record(rest)
        if isinstance(record, RemoteProtocolError):
            raise record
        return [record]

    def send(self, prompt: str) -> bytes:
        return prompt.encode()


def _record(line: bytes | LineTooLong) -> dict[str, Any] | RemoteProtocolError:
    if isinstance(line, LineTooLong):
        return line
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return InvalidJson(f"a line is not JSON: {error}")
    return found if isinstance(found, dict) else InvalidJson("a line is not a JSON object")


def as_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item in the app-server's form, so that the same code reads both."""
    named = {_FIELDS.get(name, name): value for name, value in item.items()}
    if named.get("type") == "reasoning":
        named["summary"] = [named.get("text") or ""]
    named["type"] = _NAMES.get(str(named.get("type")), named.get("type"))
    return named


def as_usage(counts: dict[str, Any]) -> dict[str, Any]:
    return {ours: counts.get(theirs) for theirs, ours in _USAGE.items()}

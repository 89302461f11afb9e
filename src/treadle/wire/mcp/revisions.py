"""Which revisions of the Model Context Protocol we speak, how one is agreed on, and what results look like. Light."""

from collections.abc import Callable

from treadle.light import Any
from treadle.wire.common.jsonrpc import METHOD_NOT_FOUND, Fault
from treadle.wire.common.jsontext import dumps

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions with a handshake. A client that names none gets the first; a newer one is used only on request."""
STATELESS = "2026-07-28"
"""The revision without a handshake: every request says in `_meta` who sends it, and in which revision."""
UNSUPPORTED_REVISION = -32022
META = "io.modelcontextprotocol/"
CAPABILITIES = {"tools": {"listChanged": False}}


def dispatch(
    method: str,
    params: dict[str, Any],
    *,
    initialize: Callable[[dict[str, Any]], dict[str, Any]],
    tools: Callable[[], list[dict[str, Any]]],
    call: Callable[[dict[str, Any]], Any],
) -> Any:
    """The answer to what every server of tools is asked; what `call` returns may have to be awaited."""
    if method == "initialize":
        return initialize(params)
    if method == "ping" or method.startswith("notifications/"):
        return {}
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        return call(params)
    raise Fault(METHOD_NOT_FOUND, f"unknown method: {method}")


def agreed(asked: Any) -> str:
    """The revision that a handshake settles on."""
    if asked is None:
        return REVISIONS[0]
    return str(asked) if asked in REVISIONS else REVISIONS[-1]


def welcome(asked: Any, name: str, version: str, instructions: str) -> dict[str, Any]:
    """The answer to `initialize`."""
    return {
        "protocolVersion": agreed(asked),
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": name, "version": version},
        "instructions": instructions,
    }


def stateless(params: dict[str, Any]) -> dict[str, Any] | None:
    """What a request without a handshake says about its sender; None for a request of a conversation."""
    meta = params.get("_meta")
    revision = meta.get(f"{META}protocolVersion") if isinstance(meta, dict) else None
    if revision is None:
        return None
    if revision != STATELESS:
        raise Fault(
            UNSUPPORTED_REVISION,
            "unsupported protocol version",
            {"supported": [STATELESS], "requested": revision},
        )
    assert isinstance(meta, dict)
    return meta


def done(result: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """A tool's result, structured for programs and as text for models that see nothing else."""
    shown = dumps(result, 2, sort_keys=True) if text is None else text
    return {"content": [{"type": "text", "text": shown}], "structuredContent": result, "isError": False}


def failed(body: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool that failed: the model reads why, and may try something else."""
    return {"content": [{"type": "text", "text": dumps(body, 2, sort_keys=True)}], "isError": True}

"""JSON-RPC 2.0, the answering side, without I/O: the text of a message in, the text of the reply out.

`framing.MessageSplitter` finds the messages in the bytes; the handler does what the methods ask.
"""

from collections.abc import Callable

from treadle.errors import RemoteProtocolError
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
"""The codes of JSON-RPC 2.0, section 5.1."""


class Fault(Exception):
    """What a handler raises to answer with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def reply(message: bytes | RemoteProtocolError, handle: Callable[[str, dict[str, Any]], Any]) -> str | None:
    """The reply to one message or one batch; None when none is expected.

    `handle(method, params)` gives the result or raises Fault. Whatever the bytes are and whatever it raises, the reply
    is well formed. A message that could not be cut from its stream is passed as the error that explains it.
    """
    if isinstance(message, RemoteProtocolError):
        return dumps(_error(None, PARSE_ERROR, str(message)))
    try:
        value = loads(message)
    except ValueError as error:
        return dumps(_error(None, PARSE_ERROR, f"not JSON: {error}"))
    if not isinstance(value, list):
        answer = _answer(value, handle)
        return None if answer is None else _text(answer)
    if not value:
        return dumps(_error(None, INVALID_REQUEST, "an empty batch"))
    answers = [text for item in value if (answer := _answer(item, handle)) is not None and (text := _text(answer))]
    return f"[{','.join(answers)}]" if answers else None


def _answer(value: Any, handle: Callable[[str, dict[str, Any]], Any]) -> dict[str, Any] | None:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return _error(None, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
    name = value.get("id")
    if isinstance(name, (bool, list, dict)) or isinstance(name, float) and not -1e308 < name < 1e308:
        return _error(None, INVALID_REQUEST, "an id must be a string, a number or null")
    method, params = value.get("method"), value.get("params")
    if "method" not in value and ("result" in value or "error" in value):
        return None  # an answer, although nothing was asked
    if not isinstance(method, str):
        return _error(name, INVALID_REQUEST, "a request needs a method")
    answer = _handled(name, method, params, handle)
    return answer if "id" in value else None


def _handled(name: Any, method: str, params: Any, handle: Callable[[str, dict[str, Any]], Any]) -> dict[str, Any]:
    if params is None:
        params = {}
    if not isinstance(params, dict):
        return _error(name, INVALID_PARAMS, "params must be an object")
    try:
        return {"jsonrpc": "2.0", "id": name, "result": handle(method, params)}
    except Fault as fault:
        return _error(name, fault.code, fault.message, fault.data)
    except Exception as error:  # one bad call must not end the conversation
        return _error(name, INTERNAL_ERROR, f"{type(error).__name__}: {error}")


def _error(name: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": name, "error": error}


def _text(answer: dict[str, Any]) -> str:
    try:
        return dumps(answer)
    except (TypeError, ValueError) as error:
        return dumps(_error(answer["id"], INTERNAL_ERROR, f"the result cannot be written: {error}"))

"""Coordination from inside a sandbox: what is asked there, and done outside by us under the identity that we gave.

A request is one line of JSON. The answer is one line too: the exit code and what was printed, or, for the ledger
server, that it listens from now on. Light: small commands import it.
"""

from __future__ import annotations

from treadle.coordination.repository import RELAY
from treadle.errors import ConfigError, TreadleError
from treadle.io import sockets
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.schema import TEXT, Schema, faults, list_of, record

if TYPE_CHECKING:
    import socket

    from treadle.coordination.changes import Made


LARGEST = 4 << 20
"""Bytes of a request, and of an answer."""
SECONDS = 90
"""For one command: a little longer than one waits for a lock."""
PATIENCE = SECONDS + 15.0
"""Inside, one waits longer than the command may take outside, so that its own error arrives and not a timeout."""
LISTENING = b'{"listening":true}\n'
_REQUEST = record(
    {"top": TEXT, "command": TEXT, "arguments": list_of(TEXT)},
    {"stdin": TEXT, "changed": list_of(record({"by": TEXT, "files": list_of(TEXT)}, closed=True))},
    closed=True,
)
_ANSWER = record({"code": {"type": "integer"}, "out": TEXT, "err": TEXT}, closed=True)


class RelayRequest:
    def __init__(
        self, top: str, command: str, arguments: list[str], stdin: bytes = b"", changed: list[Made] | None = None
    ) -> None:
        self.top = top
        self.command = command
        self.arguments = arguments
        self.stdin = stdin
        self.changed = changed
        """What a hook found inside, where the agent's index and commits are."""

    def line(self) -> bytes:
        fields: dict[str, Any] = {"top": self.top, "command": self.command, "arguments": self.arguments}
        if self.stdin:
            fields["stdin"] = _text(self.stdin)
        if self.changed is not None:
            fields["changed"] = [{"by": by, "files": files} for by, files in self.changed]
        return dumps(fields).encode() + b"\n"


def parse_request(line: bytes) -> RelayRequest:
    """Raises ConfigError when it is not a request."""
    fields = _checked(line, _REQUEST, "request")
    changed = fields.get("changed")
    made = None if changed is None else [(one["by"], one["files"]) for one in changed]
    return RelayRequest(fields["top"], fields["command"], fields["arguments"], _bytes(fields.get("stdin", "")), made)


def answer(code: int, out: bytes, err: bytes) -> bytes:
    return dumps({"code": code, "out": _text(out), "err": _text(err)}).encode() + b"\n"


def parse_answer(line: bytes) -> tuple[int, bytes, bytes]:
    """The exit code, and what goes to standard output and to standard error. Raises ConfigError."""
    fields = _checked(line, _ANSWER, "answer")
    return fields["code"], _bytes(fields["out"]), _bytes(fields["err"])


def _checked(line: bytes, schema: Schema, what: str) -> dict[str, Any]:
    try:
        fields = loads(line)
        found = faults(schema, fields)
    except ValueError as error:
        found = [str(error)]
    if found:
        raise ConfigError(f"that is not {'an' if what == 'answer' else 'a'} {what} of the relay: {'; '.join(found)}")
    assert isinstance(fields, dict)
    return fields


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise ConfigError(f"that is not text: {error}") from None


# Inside...


def ask(request: RelayRequest) -> tuple[int, bytes, bytes]:
    """The exit code, standard output and standard error of what was done outside. Raises ConfigError."""
    with connect(request) as there:
        return parse_answer(line_from(there))


def connect(request: RelayRequest) -> socket.socket:
    """A connection on which the request was sent. Raises ConfigError when there is no relay."""
    line = request.line()
    if len(line) > LARGEST:
        raise ConfigError(f"the request has more than {LARGEST >> 20} MiB, the limit for requests from a sandbox")
    try:
        there = sockets.connect(RELAY, PATIENCE)
    except TreadleError as error:
        raise ConfigError(
            "claims and identities are stored in the user's git directory, which a sandbox hides, and no relay to"
            f" it is granted here: {error.message}",
            hint="run this outside of the sandbox; writes of this session are checked against claims there anyway",
        ) from None
    try:
        there.sendall(line)
    except OSError as error:
        there.close()
        raise _no_answer(str(error)) from None
    return there


def line_from(there: socket.socket) -> bytes:
    """The first line of an answer. Raises ConfigError when none comes."""
    data = b""
    try:
        while not data.endswith(b"\n") and len(data) <= 4 * LARGEST:
            more = there.recv(1 << 16)
            if not more:
                raise _no_answer("it closed the connection")
            data += more
    except OSError as error:
        raise _no_answer(str(error)) from None
    return data


def _no_answer(why: str) -> ConfigError:
    return ConfigError(
        f"Treadle's process outside of the sandbox did not answer: {why}",
        hint="its effect is unknown: heimdall-claim list shows the claims; the relay ends with its session",
    )

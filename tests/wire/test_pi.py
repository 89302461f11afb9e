"""Lines of pi that are not quite right."""

import pytest

from treadle.errors import InvalidJson, LocalProtocolError, Violation
from treadle.wire.pi.connection import Command, Connection, Piece, PiMessage


@pytest.mark.parametrize(
    ("sender", "message", "kind"),
    [
        ("host", Command(type="prompt"), "command"),
        ("host", Command(type="extension_ui_response", id="u", value="yes"), "answer"),
        ("agent", PiMessage(type="response", command="prompt", success=True), "response"),
        ("agent", PiMessage(type="extension_ui_request", id="u"), "question"),
        ("agent", PiMessage(type="message_update", assistantMessageEvent=Piece(type="text_delta", delta="x")), "event"),
        ("agent", PiMessage(type="something_later"), "event"),
    ],
)
def test_the_type_tells_what_a_message_is(sender: str, message: Command | PiMessage, kind: str) -> None:
    assert Connection(sender).kind(sender, message) == kind
    other = "agent" if sender == "host" else "host"
    assert Connection(other).receive(Connection(sender).send(message)) == [message]
    with pytest.raises(LocalProtocolError):
        Connection(other).send(message)


def test_a_line_of_the_wrong_shape_and_one_that_is_not_json_are_told_apart() -> None:
    deep = b'{"type":"agent_end","data":' + b"[" * 5000 + b"\n"
    wrong, bad, cut, good = Connection("host").receive(b'{"type":7}\n\xff\n' + deep + b'{"type":"agent_end","new":1}\n')
    assert isinstance(wrong, Violation) and isinstance(bad, InvalidJson) and isinstance(cut, InvalidJson)
    assert good == PiMessage(type="agent_end")

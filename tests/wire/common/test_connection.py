"""What the base class promises every wire, on the smallest wire there is."""

from typing import ClassVar

import pytest

from treadle.errors import InvalidJson, LineTooLong, LocalProtocolError, RemoteProtocolError
from treadle.wire.common.connection import LineConnection, Transitions


class Doorbell(LineConnection[str]):
    """The guest rings, once or more; the host opens once. A line that is neither closes the door for good."""

    SAYS: ClassVar = {"guest": frozenset({"ring"}), "host": frozenset({"open"})}
    START: ClassVar = "shut"
    TRANSITIONS: ClassVar[Transitions] = {
        ("shut", "ring"): "rung",
        ("rung", "ring"): "rung",
        ("rung", "open"): "opened",
        ("rung", RemoteProtocolError): "locked",
    }

    def kind(self, sender: str, message: str) -> str:
        return message

    def read(self, line: bytes) -> str:
        word = line.decode()
        if word not in ("ring", "open"):
            raise InvalidJson(f"{word!r} is no word")
        return word

    def encode(self, message: str) -> bytes:
        return message.encode() + b"\n"


def test_a_role_that_the_wire_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="guest, host, not 'thief'"):
        Doorbell("thief")


def test_both_ends_follow_what_is_said() -> None:
    guest, host = Doorbell("guest"), Doorbell("host")
    assert (guest.role, guest.peer) == ("guest", "host")
    assert host.receive(guest.send("ring")) == ["ring"]
    assert guest.receive(host.send("open")) == ["open"]
    assert guest.state == host.state == "opened"
    assert repr(host) == f"<{__name__}.Connection host opened>"


@pytest.mark.parametrize(
    ("role", "word", "why"),
    [("host", "ring", "a host does not send ring"), ("host", "open", "open may not be sent while shut")],
)
def test_what_may_not_be_sent_raises_and_changes_nothing(role: str, word: str, why: str) -> None:
    end = Doorbell(role)
    with pytest.raises(LocalProtocolError, match=why):
        end.send(word)
    assert end.state == "shut"


def test_what_the_peer_may_not_say_leaves_its_error_in_its_place() -> None:
    host = Doorbell("host")
    early, ring = host.receive(b"open\nring\n")
    assert isinstance(early, RemoteProtocolError) and "a guest does not send open" in str(early)
    assert ring == "ring" and host.state == "rung"


def test_a_line_that_cannot_be_read_leads_where_the_table_says() -> None:
    host = Doorbell("host")
    [first] = host.receive(b"knock\n")
    assert isinstance(first, InvalidJson) and host.state == "shut", "no row: nothing changes"
    ring, bad, late = host.receive(b"ring\n\n  \nknock\nring\n")
    assert ring == "ring" and isinstance(bad, InvalidJson)
    assert isinstance(late, RemoteProtocolError) and host.state == "locked"


def test_a_line_over_the_cap_is_an_error_in_its_place() -> None:
    found = Doorbell("host", cap=8).receive(b"r" * 20 + b"\nring\n")
    assert isinstance(found[0], LineTooLong) and found[1:] == ["ring"]


def test_a_last_line_without_its_newline_counts_when_it_is_whole() -> None:
    host = Doorbell("host")
    assert host.end() == []
    assert host.receive(b"ring") == [] and host.end() == ["ring"] and host.state == "rung"
    host.receive(b"rin")
    with pytest.raises(InvalidJson):
        host.end()

"""The contract's checks find what they are there to find."""

from typing import Any

import pytest

from treadle.errors import LocalProtocolError
from treadle.testing.conversations.worker import CROSSINGS, SAMPLES
from treadle.testing.wires import (
    CHECKS,
    NO_CONVERSATIONS,
    Wire,
    check_crossing,
    check_garbage,
    check_illegal_send,
    check_protocol,
    check_round_trip,
    folders,
    wire,
)
from treadle.wire.worker import connection as worker


class Forgetful(worker.Connection):
    """Loses the second half of a line that comes in two pieces."""

    def decode(self, data: bytes) -> Any:
        self._lines.end()
        return super().decode(data)


class Fragile(worker.Connection):
    """Lets the reader's own exceptions out."""

    def decode(self, data: bytes) -> Any:
        data.decode()
        return super().decode(data)


class Deaf(worker.Connection):
    """Takes a cut-off input for a whole one."""

    def end(self) -> list[Any]:
        return []


class Greedy(worker.Connection):
    """Has no cap."""

    def __init__(self, role: str, *, cap: int = 0) -> None:
        super().__init__(role)


class Careless(worker.Connection):
    """Moves on although it refused."""

    def send(self, message: Any) -> bytes:
        try:
            return super().send(message)
        except LocalProtocolError:
            self.state = worker.State.CLOSED
            raise


class Strict(worker.Connection):
    """Knows no fields but its own."""

    def decode(self, data: bytes) -> Any:
        return super().decode(data.replace(b'"x_later"', b"x_later"))


@pytest.mark.parametrize(
    ("broken", "caught_by"),
    [
        (Forgetful, "byte_by_byte"),
        (Fragile, "garbage"),
        (Deaf, "cut_off"),
        (Greedy, "cap"),
        (Careless, "illegal_send"),
        (Strict, "unknown_fields"),
    ],
)
def test_a_broken_protocol_is_caught(broken: type[worker.Connection], caught_by: str) -> None:
    [check] = [check for check in CHECKS if check.__name__ == f"check_{caught_by}"]
    with pytest.raises((AssertionError, UnicodeDecodeError)):
        check(Wire(broken, SAMPLES, CROSSINGS))


def test_a_sound_protocol_passes() -> None:
    check_protocol(worker.Connection, SAMPLES, CROSSINGS)


@pytest.mark.parametrize("name", ["terminal", "heimdall"])
def test_frames_and_plain_objects_are_checked_as_lines_are(name: str) -> None:
    for check in CHECKS:
        if check is not check_garbage:  # which takes long, and asks for nothing of its own here
            check(wire(name))
    assert name in folders() and not NO_CONVERSATIONS.keys() & {*folders()}
    assert wire("terminal").crossings and not wire("heimdall").crossings


class Easygoing(worker.Connection):
    """Finds nothing wrong."""

    def refusal(self, role: str, message: Any) -> None:
        return None


class Forward(worker.Connection):
    """Takes no message that was on its way when it sent its own."""

    def receive(self, data: bytes) -> Any:
        return [] if self.state is worker.State.CLOSED or b'"cancel"' in data else super().receive(data)


def test_what_shows_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(AssertionError, match="at least one sample conversation"):
        check_round_trip(Wire(worker.Connection, []))
    with pytest.raises(AssertionError, match="in which everything is always legal needs no Connection"):
        check_illegal_send(Wire(Easygoing, SAMPLES[:1]))
    with pytest.raises(AssertionError):
        check_crossing(Wire(Forward, SAMPLES, CROSSINGS))
    with pytest.raises(AssertionError):
        check_protocol(Forward, SAMPLES, CROSSINGS)

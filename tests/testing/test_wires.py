"""The contract's checks find what they are there to find."""

from typing import Any

import pytest

from tests.wire.contract import (
    CHECKS,
    Wire,
    check_protocol,
)
from tests.wire.conversations.worker import CROSSINGS, SAMPLES
from treadle.errors import LocalProtocolError
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

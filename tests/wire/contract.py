"""The contract of a wire, as checks that run over sample conversations. A failing check says what went wrong."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.common.connection import Connection, Conversation


class Wire(NamedTuple):
    """A protocol to check: its `Connection`, legal conversations, and messages that may cross."""

    connection: type[Connection[Any]]
    samples: Sequence[Conversation]
    """Each a list of (role, message) from the first message on."""
    crossings: Sequence[tuple[Any, ...]] = ()
    """Each a conversation so far, then one more (role, message) from each end."""


class Pair:
    """Two ends of one wire. `say` sends a message across and returns what the other end received."""

    def __init__(self, kind: type[Connection[Any]]) -> None:
        self.ends = {role: kind(role) for role in kind.SAYS}

    def say(self, role: str, message: Any, *, piece: int | None = None) -> list[Any]:
        data = self.ends[role].send(message)
        other = self.other(role)
        step = piece or len(data)
        return [got for at in range(0, len(data), step) for got in other.receive(data[at : at + step])]

    def other(self, role: str) -> Connection[Any]:
        return self.ends[self.ends[role].peer]


def check_round_trip(wire: Wire) -> None:
    """Every sample arrives as it was sent, and both ends agree on the state."""
    assert wire.samples, "a protocol needs at least one sample conversation"
    for talk in wire.samples:
        pair = Pair(wire.connection)
        for role, message in talk:
            assert pair.say(role, message) == [message]
            states = {end.state for end in pair.ends.values()}
            assert len(states) == 1, f"after {message} the ends are in {states}"


def check_byte_by_byte(wire: Wire) -> None:
    for talk in wire.samples:
        pair = Pair(wire.connection)
        for role, message in talk:
            assert pair.say(role, message, piece=1) == [message]


def check_unknown_fields(wire: Wire) -> None:
    """A JSON message with an unknown field means the same as without it."""
    for sender, receiver, message, data in _sent(wire):
        if data.lstrip()[:1] != b"{":
            receiver.receive(data)
            continue
        body = {**json.loads(data), "x_later": {"deep": [1, None, "é"]}}
        line = json.dumps(body).encode() + (b"\n" if data.endswith(b"\n") else b"")
        [got] = receiver.receive(line)
        if isinstance(got, dict):  # messages that are plain objects may keep unknown fields
            got.pop("x_later", None)
        assert got == message, f"{sender.role} said {line!r}"


def check_garbage(wire: Wire, rounds: int = 300) -> None:
    """Random and mutated bytes give messages or RemoteProtocolError, and nothing else."""
    chance = random.Random(7)
    for talk in wire.samples:
        for _ in range(rounds):
            pair = Pair(wire.connection)
            for role, message in talk[: chance.randrange(len(talk)) + 1]:
                data = bytearray(pair.ends[role].send(message))
                hurt = chance.random() < 0.4
                if hurt:
                    _mutate(data, chance)
                if not _tolerated(pair.other(role), bytes(data)) or hurt:
                    break
            _tolerated(pair.other(role), chance.randbytes(chance.randrange(64)) + b"\n")


def check_cut_off(wire: Wire) -> None:
    """The end of input inside a message is an error; between messages it is not."""
    for talk in wire.samples:
        for index, (role, message) in enumerate(talk):
            for whole in (False, True):
                pair = Pair(wire.connection)
                for earlier in talk[:index]:
                    pair.say(*earlier)
                data, receiver = pair.ends[role].send(message), pair.other(role)
                receiver.receive(data if whole else data[: len(data) // 2])
                if whole:
                    assert receiver.end() == []
                else:
                    assert _raises(RemoteProtocolError, receiver.end), f"cut off, but accepted: {data!r}"


def check_cap(wire: Wire) -> None:
    """A message over the cap is an error before it is held in memory, and not a crash."""
    for sender, receiver, _, data in _sent(wire):
        receiver.receive(data)
        if len(data) < 3:
            continue
        small = wire.connection(sender.peer, cap=len(data) // 2)
        try:
            found = small.receive(data)
        except RemoteProtocolError:
            continue
        assert found and isinstance(found[0], RemoteProtocolError), f"over the cap, but accepted: {found}"


def check_illegal_send(wire: Wire) -> None:
    """A message that is not allowed now raises, and the conversation goes on as if it had not been tried."""
    entries = [entry for talk in wire.samples for entry in talk]
    refused = 0
    for talk in wire.samples:
        pair = Pair(wire.connection)
        for role, message in talk:
            for other, wrong in entries:
                for end in pair.ends.values():
                    if end.refusal(end.role, wrong) is not None:
                        before = end.state
                        assert _raises(LocalProtocolError, partial(end.send, wrong))
                        assert end.state == before, f"{other} saying {wrong} moved {before} to {end.state}"
                        refused += 1
            assert pair.say(role, message) == [message]
    assert refused, "a protocol in which everything is always legal needs no Connection"


def check_crossing(wire: Wire) -> None:
    """Messages that cross on the wire are legal."""
    for talk, *crossed in wire.crossings:
        pair = Pair(wire.connection)
        for role, message in talk:
            assert pair.say(role, message) == [message]
        sent = [(role, message, pair.ends[role].send(message)) for role, message in crossed]
        for role, message, data in sent:
            assert pair.other(role).receive(data) == [message]


CHECKS: list[Callable[[Wire], None]] = [
    check_round_trip,
    check_byte_by_byte,
    check_unknown_fields,
    check_garbage,
    check_cut_off,
    check_cap,
    check_illegal_send,
    check_crossing,
]


def check_protocol(
    connection: type[Connection[Any]], samples: Sequence[Conversation], crossings: Sequence[tuple[Any, ...]] = ()
) -> None:
    for check in CHECKS:
        check(Wire(connection, samples, crossings))


def _sent(wire: Wire) -> Iterator[tuple[Connection[Any], Connection[Any], Any, bytes]]:
    """Each sample as (sender, receiver, message, bytes). The caller gives the bytes to the receiver."""
    for talk in wire.samples:
        pair = Pair(wire.connection)
        for role, message in talk:
            data = pair.ends[role].send(message)
            yield pair.ends[role], pair.other(role), message, data


def _mutate(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 8)]
            case _:
                data[at:at] = chance.choice([b"{", b"[" * 2000, b'"', b"\n", b"null", b"-1", b"1e999", b"\xff"])
        if not data:
            data += b"\n"


def _tolerated(end: Connection[Any], data: bytes) -> bool:
    """Whether the stream can still be followed."""
    try:
        end.receive(data)
    except RemoteProtocolError:
        return False
    return True


def _raises(kind: type[Exception], act: Callable[[], Any]) -> bool:
    try:
        act()
    except kind:
        return True
    return False

"""One client's queue over a real socket pair."""

import socket

import pytest

from treadle.terminal.output import FRAME, REPLIES_MAX, ConnectedClient, Scrollback
from treadle.wire.terminal import frames as wire
from treadle.wire.terminal.connection import Connection


def pair() -> tuple[ConnectedClient, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    client = ConnectedClient(ours, 1)
    client.reply(wire.Mode(0))
    return client, theirs


def read(sock: socket.socket) -> bytes:
    data = b""
    while True:
        try:
            part = sock.recv(1 << 20)
        except BlockingIOError:
            return data
        if not part:
            return data
        data += part


def messages(data: bytes) -> list[object]:
    end = Connection("client")
    end.state = "subscribed"
    end._greeted = True
    return list(end.receive(data.removeprefix(b"\0")))


def subscribe(client: ConnectedClient, scrollback: Scrollback) -> None:
    client.wire.receive(wire.encode(wire.Subscribe()))
    client.cursor = scrollback.replay_start


def test_replay_live_and_exit_come_in_this_order() -> None:
    client, theirs = pair()
    scrollback = Scrollback(100, 1000)
    scrollback.append(b"old ", 0)
    subscribe(client, scrollback)
    assert client.pump(scrollback, None)
    scrollback.append(b"new", client.cursor)
    assert client.offer(wire.encode(wire.ProgramOutput(b"new")), scrollback.end)
    assert client.pump(scrollback, wire.encode(wire.Exit(3)))
    assert client.pump(scrollback, wire.encode(wire.Exit(3)))
    assert messages(read(theirs)) == [wire.ProgramOutput(b"old "), wire.ProgramOutput(b"new"), wire.Exit(3)]
    client.sock.close()
    theirs.close()


def test_one_that_stalls_loses_the_oldest_and_is_told_how_much_when_it_wants_to_know() -> None:
    client, theirs = pair()
    client.wants = wire.WANT_GAPS
    scrollback = Scrollback(1000, 200_000)
    subscribe(client, scrollback)
    for _ in range(100):
        scrollback.append(b"x" * 65536, client.cursor)
        assert client.pump(scrollback, None)
    client.reply(wire.StatusReply.of(1, 2, True, 0, 3))
    received = b""
    while True:
        received += read(theirs)
        assert client.pump(scrollback, wire.encode(wire.Exit(0)))
        if client.ended and not client.behind:
            received += read(theirs)
            break
    found = messages(received)
    got = sum(len(message.data) for message in found if isinstance(message, wire.ProgramOutput))
    missed = sum(message.missed for message in found if isinstance(message, wire.Gap))
    assert got + missed == 100 * 65536 and missed == client.missed > 0
    assert sum(isinstance(message, wire.StatusReply) for message in found) == 1
    assert found[-1] == wire.Exit(0)
    client.sock.close()
    theirs.close()


def test_unread_replies_fill_it_up_but_none_is_dropped() -> None:
    client, theirs = pair()
    scrollback = Scrollback(0, 0)
    count = 0
    while not client.full:
        client.reply(wire.DetailReply(b"{" + b" " * 1000 + b"}"))
        client.pump(scrollback, None)
        count += 1
    assert client._queued > REPLIES_MAX
    data = b""
    while client.behind:
        data += read(theirs)
        client.pump(scrollback, None)
    data += read(theirs)
    assert len(messages(data)) == count
    client.sock.close()
    theirs.close()


def test_output_that_is_not_read_does_not_fill_it_up() -> None:
    client, theirs = pair()
    scrollback = Scrollback(4 * FRAME, 4 * FRAME)
    subscribe(client, scrollback)
    client.pump(scrollback, None)
    try:
        while client.sock.send(b"x" * FRAME):  # until the socket takes nothing at all
            pass
    except BlockingIOError:
        pass
    scrollback.append(b"y" * 2 * FRAME, client.cursor)
    assert client.offer(wire.encode(wire.ProgramOutput(b"y" * 2 * FRAME)), scrollback.end)
    assert client.behind and not client.full
    client.sock.close()
    theirs.close()


def test_a_peer_that_is_gone_is_noticed() -> None:
    client, theirs = pair()
    theirs.close()
    client.reply(wire.StatusReply.of(1, 2, True, 0, 3))
    assert not client.pump(Scrollback(0, 0), None)
    client.sock.close()


@pytest.mark.parametrize(
    ("subscribed", "greeted", "wants", "size", "terminal"),
    [
        (True, True, wire.IS_TERMINAL, None, True),
        (True, True, 0, (80, 24), False),
        (True, True, wire.IS_TERMINAL | wire.READ_ONLY, (80, 24), False),
        (False, True, wire.IS_TERMINAL, (80, 24), False),
        (True, False, 0, (80, 24), True),
        (True, False, 0, None, False),
    ],
)
def test_a_persons_terminal_is_one_that_says_so_or_has_sent_its_size(
    subscribed: bool, greeted: bool, wants: int, size: tuple[int, int] | None, terminal: bool
) -> None:
    client, theirs = pair()
    assert repr(client) == "client 1" and not client.subscribed
    client.cursor, client.greeted, client.wants, client.size = 0 if subscribed else -1, greeted, wants, size
    assert client.is_terminal is terminal
    client.sock.close()
    theirs.close()


def test_one_that_lags_and_does_not_want_to_know_is_sent_what_is_left() -> None:
    client, theirs = pair()
    scrollback = Scrollback(10, 0)
    subscribe(client, scrollback)
    for part in (b"x" * 5000, b"y" * 5000):
        scrollback.append(part, scrollback.end)
    assert client.pump(scrollback, None) and (client.missed, client.gapped) == (5000, True)
    assert messages(read(theirs)) == [wire.ProgramOutput(b"y" * 5000)] and client.cursor == 10_000
    client.sock.close()
    theirs.close()

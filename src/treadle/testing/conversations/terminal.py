"""Terminal conversations: a question and an order, a program watched to its end, and the additions of ours."""

from __future__ import annotations

from treadle.wire.common.connection import Conversation
from treadle.wire.terminal.frames import (
    ACTIVE,
    BINARY,
    FROM,
    THINKING,
    VERSION,
    WANT_GAPS,
    Detail,
    DetailReply,
    Exit,
    Gap,
    Hello,
    HelloReply,
    Input,
    Kill,
    Leader,
    Mode,
    Output,
    Resize,
    Size,
    State,
    Status,
    StatusReply,
    Stop,
    Stopped,
    Subscribe,
    Unknown,
)

SAMPLES: list[Conversation] = [
    [
        ("supervisor", Mode(BINARY)),
        ("client", Status()),
        ("supervisor", StatusReply.of(4242, 1500, True, THINKING, 2**40)),
        ("client", Resize(220, 50)),
        ("client", Unknown(0x7F, b"later")),
        ("client", Kill()),
    ],
    [
        ("supervisor", Mode(BINARY)),
        ("client", Subscribe()),
        ("supervisor", Output(b"\x1b[1mhello\x1b[0m\r\n")),
        ("client", Input(b"ls\r")),
        ("client", Status()),
        ("supervisor", StatusReply.of(1, 0, True, ACTIVE, 0)),
        ("supervisor", Output(b"")),
        ("supervisor", Exit(-1)),
        ("client", Input(b"too late")),
    ],
    [
        ("supervisor", Mode(BINARY)),
        ("client", Hello(WANT_GAPS | FROM, 1 << 40)),
        ("supervisor", HelloReply(VERSION, WANT_GAPS | FROM, 7, 1 << 40, 80, 24)),
        ("client", Subscribe()),
        ("supervisor", Gap(1 << 33)),
        ("supervisor", State(b'{"name": "idle"}')),
        ("supervisor", Size(80, 25)),
        ("supervisor", Leader(1)),
        ("client", Detail()),
        ("supervisor", DetailReply(b'{"id": "a"}')),
        ("client", Stop(5000)),
        ("supervisor", Exit(143)),
        ("supervisor", Stopped(b'{"code": 143}')),
    ],
]
CROSSINGS = [
    (SAMPLES[1][:3], ("supervisor", Exit(0)), ("client", Input(b"x"))),
    (SAMPLES[1][:3], ("supervisor", Exit(0)), ("client", Status())),
]

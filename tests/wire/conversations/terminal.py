"""Terminal conversations: a question and an order, a program watched to its end, and the additions of ours."""

from treadle.wire.common.connection import Conversation
from treadle.wire.terminal import frames

SAMPLES: list[Conversation] = [
    [
        ("supervisor", frames.Mode(frames.BINARY)),
        ("client", frames.StatusQuestion()),
        ("supervisor", frames.StatusReply.of(4242, 1500, True, frames.THINKING, 2**40)),
        ("client", frames.Resize(220, 50)),
        ("client", frames.UnknownFrame(0x7F, b"later")),
        ("client", frames.Kill()),
    ],
    [
        ("supervisor", frames.Mode(frames.BINARY)),
        ("client", frames.Subscribe()),
        ("supervisor", frames.ProgramOutput(b"\x1b[1mhello\x1b[0m\r\n")),
        ("client", frames.Input(b"ls\r")),
        ("client", frames.StatusQuestion()),
        ("supervisor", frames.StatusReply.of(1, 0, True, frames.ACTIVE, 0)),
        ("supervisor", frames.ProgramOutput(b"")),
        ("supervisor", frames.Exit(-1)),
        ("client", frames.Input(b"too late")),
    ],
    [
        ("supervisor", frames.Mode(frames.BINARY)),
        ("client", frames.ClientHello(frames.WANT_GAPS | frames.FROM, 1 << 40)),
        ("supervisor", frames.HelloReply(frames.VERSION, frames.WANT_GAPS | frames.FROM, 7, 1 << 40, 80, 24)),
        ("client", frames.Subscribe()),
        ("supervisor", frames.Gap(1 << 33)),
        ("supervisor", frames.StateFrame(b'{"name": "idle"}')),
        ("supervisor", frames.Size(80, 25)),
        ("supervisor", frames.Leader(1)),
        ("client", frames.Detail()),
        ("supervisor", frames.DetailReply(b'{"id": "a"}')),
        ("client", frames.Type(frames.PRESSES_ENTER, b"hello")),
        ("supervisor", frames.TypedReply(b'{"typed": false, "why": "permission"}')),
        ("client", frames.SubmitPrompt(frames.WHEN_IDLE, 20_000, b"then this")),
        ("supervisor", frames.Prompted(b'{"number": 1, "stage": "queued"}')),
        ("client", frames.CancelPrompt(1)),
        ("supervisor", frames.Prompted(b'{"number": 1, "stage": "cancelled"}')),
        ("client", frames.Explain()),
        ("supervisor", frames.Explained(b'{"state": "permission"}')),
        ("client", frames.Stop(5000)),
        ("supervisor", frames.Exit(143)),
        ("supervisor", frames.Stopped(b'{"code": 143}')),
    ],
]
CROSSINGS = [
    (SAMPLES[1][:3], ("supervisor", frames.Exit(0)), ("client", frames.Input(b"x"))),
    (SAMPLES[1][:3], ("supervisor", frames.Exit(0)), ("client", frames.StatusQuestion())),
]

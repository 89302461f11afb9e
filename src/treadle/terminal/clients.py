"""The supervisor's clients: who they are, what they ask, which of them leads, and which size the terminal gets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from treadle.errors import RemoteProtocolError, StorageError
from treadle.io import sockets
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal.keyboard import answer_refusal, refusal
from treadle.terminal.loop import READ, WRITE, now_ms
from treadle.terminal.output import ConnectedClient
from treadle.terminal.state import session_of
from treadle.terminal.states import SUBMITTED_MAX
from treadle.wire.common.jsontext import dumps, repaired
from treadle.wire.terminal import frames as wire

# Which size a terminal gets when several people look at it.


def choose(policy: str, sizes: Sequence[tuple[int, int]], latest: tuple[int, int] | None) -> tuple[int, int] | None:
    """The size to use, or None to keep it. `sizes` are those of the attached terminals, the leader's first.

    latest: the size of the terminal that last attached, typed or was resized. smallest: what all of them can show.
    leader: the size of the terminal that attached first. fixed: never changed.
    """
    if policy == "fixed" or not sizes:
        return None
    if policy == "latest":
        return latest
    if policy == "leader":
        return sizes[0]
    return min(cols for cols, _ in sizes), min(rows for _, rows in sizes)


if TYPE_CHECKING:
    from socket import socket
    from typing import Protocol

    from treadle.terminal.output import Scrollback
    from treadle.terminal.prompts import PromptedTerminal, Prompts
    from treadle.terminal.settings import TerminalSettings

    class ServedTerminal(PromptedTerminal, Protocol):
        """What clients need: one program in a terminal, and its state."""

        settings: TerminalSettings
        scrollback: Scrollback
        size: tuple[int, int]
        exit_frame: bytes | None
        ending: bool
        held: bool
        prompts: Prompts

        @property
        def input_full(self) -> bool: ...
        def resize(self, cols: int, rows: int) -> None: ...
        def read_on(self) -> None: ...
        def status(self) -> wire.StatusReply: ...
        def detail(self) -> dict[str, Any]: ...
        def kill(self) -> None: ...
        def end(self, grace: float) -> None: ...
        def leave(self) -> None: ...


ACCEPT_PAUSE = 0.2
"""Seconds without accepting after the system had no descriptor left: the waiting connection would wake `poll` again at
once."""
REPAINT_PAUSE = 0.05
"""Seconds between two sizes. The program must see the first, or it finds the size unchanged and redraws nothing."""
LAG_MAX = 256 * 1024
"""If an attached terminal is more than this many bytes behind, the program waits for it, as on any slow terminal."""
ENTERED = ("idle", "error", "unknown")
"""The states in which Enter submits a text."""
NEGOTIATED = (wire.Type, wire.Stop, wire.SubmitPrompt, wire.CancelPrompt)
"""Commands that the plain protocol does not have. Before HELLO, a client may mean something else by these numbers."""
TYPING = (wire.Type, wire.SubmitPrompt)
"""What is not done for a client that has left: it was told nothing, has given up, and may have sent it again."""
TELLING = ("name", "wire", "agent", "waiting_for", "dialog", "mode", "done", "settling", "tasks")
"""The fields in which states are compared. Their duration and wording do not count."""


class Clients:
    def __init__(self, session: ServedTerminal, listener: socket, path: str) -> None:
        self.session = session
        self.loop = session.loop
        self.listener = listener
        self.path = path
        self.identity = os.stat(self.path).st_ino
        self.every: dict[int, ConnectedClient] = {}
        self.leader: ConnectedClient | None = None
        self._latest: ConnectedClient | None = None
        self._policy = session.settings.resize_policy
        self._count = 0
        self._last_sent_state = ""
        self._stops: list[ConnectedClient] = []
        self._opened = False

    def open(self) -> None:
        """Take connections from now on: the program runs, so that it has a pid, or never will. Those who have
        connected already are served now."""
        self._opened = True
        self._listen()

    def listen_again(self) -> None:
        """If someone removed the socket file, create it again. Connected clients stay connected."""
        try:
            if os.stat(self.path).st_ino == self.identity:
                return
        except FileNotFoundError:
            pass
        try:
            listener = sockets.listen(self.path, owned=True)
        except StorageError as error:
            return self.session.log("warn", "the socket is gone", reason=str(error))
        self.loop.forget(self.listener.fileno())
        self.listener.close()
        self.listener, self.identity = listener, os.stat(self.path).st_ino
        self.session.log("warn", "the socket was removed, and is there again")
        self._listen()

    def close(self) -> None:
        """Send the last messages to those who are connected, and remove the socket if it is still ours."""
        self.pump_all()
        for client in list(self.every.values()):
            self._drop(client, "the end")
        try:
            if os.stat(self.path).st_ino == self.identity:
                os.unlink(self.path)
        except FileNotFoundError:
            pass
        self.loop.forget(self.listener.fileno())
        self.listener.close()

    def roster(self) -> list[dict[str, object]]:
        return [
            {
                "number": client.number,
                "subscribed": client.subscribed,
                "terminal": client.is_terminal,
                "read_only": bool(client.wants & wire.READ_ONLY),
                "leads": client is self.leader,
                "size": list(client.size) if client.size else None,
                "missed": client.missed,
            }
            for client in self.every.values()
        ]

    # Coming and going...

    def _listen(self) -> None:
        if self._opened:
            self.loop.watch(self.listener.fileno(), READ, self._accept)

    def _accept(self, events: int) -> None:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of descriptors: without a pause, the same connection would be reported again and again.
            self.session.log("warn", "cannot accept", reason=error.strerror)
            self.loop.forget(self.listener.fileno())
            self.loop.at("accept", time.monotonic() + ACCEPT_PAUSE, self._listen)
            return
        if not self._admits(sock):
            self.session.log("warn", "refused a connection", uid=sockets.peer_uid(sock), clients=len(self.every))
            sock.close()
            return
        sock.setblocking(False)
        self._count += 1
        client = ConnectedClient(sock, self._count)
        client.ready = lambda events: self._ready(client, events)
        self.every[client.number] = client
        self._reply(client, wire.Mode(wire.BINARY))

    def _admits(self, sock: socket) -> bool:
        """Another user never gets in, and takes no one's place. At the limit, who has said nothing makes room."""
        if not sockets.same_user(sock):
            return False
        most = self.session.settings.clients_max
        if len(self.every) >= most and (silent := self._silent()):
            self._drop(silent, "it has said nothing, and another needs its place")
        return len(self.every) < most

    def _silent(self) -> ConnectedClient | None:
        """The one that has been connected longest of those that have never said anything."""
        return next((client for client in self.every.values() if not client.spoke), None)

    def _drop(self, client: ConnectedClient, why: str) -> None:
        if self.every.pop(client.number, None):
            self.loop.forget(client.sock.fileno())
            client.sock.close()
            self.session.prompts.left(client)
            if self.session.held and not self.lagging():
                self.session.read_on()
            self.session.log("debug", "client left", client=client.number, why=why, missed=client.missed)
            self._terminals_changed()

    # Reading...

    def _ready(self, client: ConnectedClient, events: int) -> None:
        if events & WRITE and not self._pump(client):
            return
        if events & READ:
            try:
                data = client.sock.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                self._received(client, data)
            else:
                self._drop(client, "left")

    def _received(self, client: ConnectedClient, data: bytes) -> None:
        client.spoke = True
        if (typed := client.wire.sole(wire.INPUT, data)) is not None:
            return self._input(client, typed)
        for message in client.wire.receive(data):
            if isinstance(message, RemoteProtocolError):
                self.session.log("warn", "malformed frame", client=client.number, reason=str(message))
                return self._drop(client, "malformed frame")
            act = ACTIONS.get(type(message))
            if isinstance(message, TYPING) and sockets.has_left(client.sock):
                return self._drop(client, "left before it was served")
            if act and (client.greeted or not isinstance(message, NEGOTIATED)):
                act(self, client, message)
            else:
                self.session.log("warn", "unknown frame", client=client.number, frame=repr(message)[:80])
            if client.number not in self.every:
                return
        self._watch(client)

    def _input(self, client: ConnectedClient, data: bytes, by_person: bool = True) -> None:
        if client.wants & wire.READ_ONLY:
            return
        watch = self.session.watch
        watch.dialogs.typed(data, watch.view.total, -1 if by_person else session_of(sockets.peer(client.sock)[0]))
        self.session.type(data)
        client.types = True
        self._active(client)
        self.session.watch.typed(now_ms(), by_person and client.is_terminal)
        if self.session.pty.input_queued:
            self._watch(client)

    def _subscribe(self, client: ConnectedClient, message: wire.Subscribe) -> None:
        if client.subscribed:
            return
        scrollback = self.session.scrollback
        client.cursor = scrollback.replay_start
        if client.wants & wire.FROM:
            client.cursor = min(max(client.start, scrollback.start), scrollback.end)
            if (lost := client.cursor - client.start) > 0 and client.wants & wire.WANT_GAPS:
                client.reply(wire.Gap(lost))
        self._active(client)
        self._terminals_changed()
        if client.is_terminal and self.session.watch.full_screen:
            self._repaint()
        self._pump(client)

    def _repaint(self) -> None:
        """A full-screen program redraws everything only when its size changes."""
        session = self.session
        cols, rows = session.size
        if session.code is None and rows > 1:
            session.pty.resize(cols, rows - 1)
            self.loop.at("repaint", time.monotonic() + REPAINT_PAUSE, lambda: session.pty.resize(*session.size))

    def _status(self, client: ConnectedClient, message: wire.StatusQuestion) -> None:
        self._reply(client, self.session.status())

    def _resize(self, client: ConnectedClient, message: wire.Resize) -> None:
        if client.wants & wire.READ_ONLY:
            return
        client.size = (message.cols, message.rows)
        if client.greeted and not client.wants & wire.IS_TERMINAL:
            self._apply(client.size)  # a command, not the size of a person's window
        elif client.is_terminal:
            self._active(client)
            self._terminals_changed()
        elif self._policy == "latest" or (self._policy != "fixed" and not self._terminals()):
            self._apply(client.size)

    def _kill(self, client: ConnectedClient, message: wire.Kill) -> None:
        if not client.wants & wire.READ_ONLY:
            self.session.kill()

    def _hello(self, client: ConnectedClient, message: wire.ClientHello) -> None:
        client.greeted = True
        client.wants, client.start = message.wants, message.start
        scrollback = self.session.scrollback
        granted = message.wants & (2 * wire.FROM - 1)
        self._reply(
            client,
            wire.HelloReply(wire.VERSION, granted, scrollback.replay_start, scrollback.end, *self.session.size),
        )
        self._terminals_changed()
        if client.wants & wire.WANT_STATES:
            self._last_sent_state = ""
            self.session.look()

    def _detail(self, client: ConnectedClient, message: wire.Detail) -> None:
        self._reply(client, wire.DetailReply(dumps(repaired(self.session.detail())).encode()))

    def _type(self, client: ConnectedClient, message: wire.Type) -> None:
        state = self.session.state()
        why = "read only" if client.wants & wire.READ_ONLY else "dead" if self.session.code is not None else ""
        data = message.data
        if not why and message.how & wire.ANSWERS:
            named = data[1 : 1 + data[0]].decode(errors="replace") if data and message.how & wire.NAMES_DIALOG else ""
            data = data[1 + data[0] :] if named else data
            why = self._answers_another(client, named, state) or answer_refusal(state, data)
            data += self._ends_answer(data)
        elif not why and not message.how & wire.ANYWAY:
            enter = bool(message.how & wire.PRESSES_ENTER)
            why = refusal(state, data, enter)
        if not why:
            self._input(client, data, by_person=False)
            self._note_enter(state, data)
        body = {"typed": not why, "why": why or None, "state": state}
        self._reply(client, wire.TypedReply(dumps(repaired(body)).encode()))

    def _answers_another(self, client: ConnectedClient, named: str, state: dict[str, Any]) -> str:
        """Why the answer may not be meant for what the program asks now: `changed`, `answered` while nothing has come
        of another answer, `which` for one that names no dialog and may mean an earlier one; or ""."""
        dialogs = self.session.watch.dialogs
        if dialogs.current is None:
            return "" if state.get("settling") else "no question"
        if named and named != dialogs.current.id:
            return "changed"
        if dialogs.current.answered is not None:
            return "answered"
        alone = all(one is client or one.wants & wire.READ_ONLY for one in self.every.values())
        return "" if named or alone and dialogs.named_by(sockets.peer(client.sock)[0]) else "which"

    def _ends_answer(self, data: bytes) -> bytes:
        """Enter, for an agent that asks at a prompt and reads a whole line, unless the key is one that ends it."""
        detector = self.session.watch.agent.detector
        return b"\r" if detector and detector.box.cursor and data[:1] >= b" " else b""

    def _note_enter(self, state: dict[str, Any], data: bytes) -> None:
        """A text that ends in Enter submits what is in the box, if there is one and no dialog instead."""
        watch = self.session.watch
        if watch.agent.detector and state["name"] in ENTERED and data[-1:] in (b"\r", b"\n"):
            if words := data.strip():
                watch.entered(words, now_ms(), SUBMITTED_MAX)

    def _prompt(self, client: ConnectedClient, message: wire.SubmitPrompt) -> None:
        if client.wants & wire.READ_ONLY:
            return self._reply(client, wire.Prompted(b'{"number":0,"stage":"refused","why":"read only","state":{}}'))
        self.session.prompts.add(client, message)

    def _cancel_prompt(self, client: ConnectedClient, message: wire.CancelPrompt) -> None:
        if not client.wants & wire.READ_ONLY:
            self.session.prompts.cancel(client, message.number)

    def tell_prompted(self, client: ConnectedClient, message: wire.Prompted) -> None:
        if client.number in self.every:
            self._reply(client, message)

    def _explain(self, client: ConnectedClient, message: wire.Explain) -> None:
        self.session.state()
        body = self.session.watch.explain(now_ms())
        self._reply(client, wire.Explained(dumps(repaired(body)).encode()))

    def _stop(self, client: ConnectedClient, message: wire.Stop) -> None:
        if client.wants & wire.READ_ONLY:
            return
        self._stops.append(client)
        if self.session.exit_frame is None:
            self.session.end(message.grace_ms / 1000)
        else:
            if not self.session.ending:
                self.ended({"code": self.session.code, "ended": [], "survivors": [], "unseen": False})
            self.session.leave()

    # Writing...

    def output(self, data: bytes) -> None:
        """Add new output to the scrollback and send it to every subscriber that has everything before it."""
        scrollback = self.session.scrollback
        before, after = scrollback.end, scrollback.end + len(data)
        subscribers = [client for client in self.every.values() if client.cursor >= 0]
        frame = wire.frame(wire.OUTPUT, data) if subscribers else b""
        for client in subscribers:
            if client.cursor == before and not client.behind:
                if not client.offer(frame, after):
                    self._drop(client, "gone")
                elif client.behind:
                    self._watch(client)
        scrollback.append(data, min([client.cursor for client in subscribers], default=before))

    def pump_all(self) -> None:
        for client in list(self.every.values()):
            self._pump(client)

    def _pump(self, client: ConnectedClient) -> bool:
        """Send what can be sent. False when that ended the connection."""
        if not client.pump(self.session.scrollback, self.session.exit_frame):
            self._drop(client, "gone")
            return False
        self._watch(client)
        if client.cursor == self.session.scrollback.end:
            client.given_up = False
            if client.gapped:
                client.gapped = False
                if client.is_terminal and self.session.watch.full_screen:
                    self._repaint()
        if self.session.held and not self.lagging():
            self.session.read_on()
        return True

    def lagging(self) -> list[ConnectedClient]:
        """The people's terminals that are so far behind that they would soon miss output."""
        end = self.session.scrollback.end
        return [
            client
            for client in self.every.values()
            if client.is_terminal and not client.given_up and end - client.cursor > LAG_MAX
        ]

    def _reply(self, client: ConnectedClient, message: wire.Frame) -> None:
        client.reply(message)
        self._pump(client)

    def _watch(self, client: ConnectedClient) -> None:
        if client.number in self.every:
            paused = client.full or (client.types and self.session.input_full)
            events = (0 if paused else READ) | (WRITE if client.behind else 0)
            self.loop.watch(client.sock.fileno(), events, client.ready)

    def input_moved(self) -> None:
        for client in list(self.every.values()):
            if client.types:
                self._watch(client)

    def tell(self, wanted: int, message: wire.Frame) -> None:
        for client in list(self.every.values()):
            if client.wants & wanted:
                self._reply(client, message)

    @property
    def want_states(self) -> bool:
        return any(client.wants & wire.WANT_STATES for client in self.every.values())

    def tell_state(self, detail: dict[str, Any]) -> None:
        """Send the state to those who asked for it, if it has changed."""
        key = dumps(repaired({name: detail.get(name) for name in TELLING}))
        if key != self._last_sent_state:
            self._last_sent_state = key
            self.tell(wire.WANT_STATES, wire.StateFrame(dumps(repaired(detail)).encode()))

    def ended(self, report: dict[str, Any]) -> None:
        """Report the outcome to those who asked to end the program."""
        stopped = wire.Stopped(dumps(repaired(report)).encode())
        for client in self._stops:
            if client.number in self.every:
                self._reply(client, stopped)
        self._stops.clear()

    # Sizes and the leader...

    def _terminals(self) -> list[ConnectedClient]:
        return [client for client in self.every.values() if client.is_terminal]

    def _active(self, client: ConnectedClient) -> None:
        if client.is_terminal and self._latest is not client:
            self._latest = client
            self._terminals_changed()

    def _terminals_changed(self) -> None:
        """The oldest terminal leads; the policy decides the size."""
        terminals = self._terminals()
        leader = terminals[0] if terminals else None
        if leader is not self.leader:
            before, self.leader = self.leader, leader
            for client in (before, leader):
                if client and client.number in self.every and client.wants & wire.IS_TERMINAL:
                    self._reply(client, wire.Leader(int(client is leader)))
        latest = self._latest if self._latest in terminals else (terminals[-1] if terminals else None)
        size = choose(
            self._policy,
            [client.size for client in terminals if client.size],
            latest.size if latest else None,
        )
        if size:
            self._apply(size)

    def _apply(self, size: tuple[int, int]) -> None:
        self.session.resize(*size)


ACTIONS: dict[type[wire.Frame], Callable[[Clients, ConnectedClient, Any], None]] = {
    wire.Input: lambda clients, client, message: clients._input(client, message.data),
    wire.Subscribe: Clients._subscribe,
    wire.StatusQuestion: Clients._status,
    wire.Resize: Clients._resize,
    wire.Kill: Clients._kill,
    wire.ClientHello: Clients._hello,
    wire.Detail: Clients._detail,
    wire.Stop: Clients._stop,
    wire.Type: Clients._type,
    wire.Explain: Clients._explain,
    wire.SubmitPrompt: Clients._prompt,
    wire.CancelPrompt: Clients._cancel_prompt,
}

"""The supervisor: one process, one loop, one program in a pty.

No handler waits, so nothing that one client does or leaves undone is felt by the program or by another client. What
must hold in whatever order the kernel reports things: all output, then the exit record, then EXIT, then the linger.
"""

from __future__ import annotations

import os
import signal
import time

from treadle.errors import StorageError
from treadle.io import sockets
from treadle.io.files import write_atomic
from treadle.io.process import registry, signals
from treadle.light import TYPE_CHECKING
from treadle.terminal import ending
from treadle.terminal.clients import Clients
from treadle.terminal.history import OUTPUT_MAX, Log, Rotated
from treadle.terminal.lock import Lock
from treadle.terminal.loop import READ, WRITE, Loop, now_ms
from treadle.terminal.places import Place
from treadle.terminal.pty import Pty, run_in_background
from treadle.terminal.scrollback import Scrollback
from treadle.terminal.settings import Settings, child_environment
from treadle.terminal.state import WAITING, Watch
from treadle.wire.common.jsontext import dumps, mended
from treadle.wire.common.timestamps import timestamp
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.record import Recorder

BACKLOG = 1024 * 1024
"""Output kept for clients that lag, beyond the scrollback. They share it: it does not grow with their number."""
INPUT_MAX = 1024 * 1024
"""Unread input after which the clients that typed are not read from until the program has taken some."""
QUIET = 0.05
DRAIN_MAX = 1.0
"""After death the output ends with the hang-up. When a background process keeps the terminal open, it ends with QUIET
seconds of silence, or after DRAIN_MAX."""
DRAIN_READS = 16
"""Reads in one turn of the loop, so that the other clients are served meanwhile."""
GIVEN_BACK = 16 * 1024
LEFTOVERS_GRACE = 2.0
STOP_GRACE = 5.0
REOPEN = 0.5
HOLD_MAX = 5.0
"""Seconds for which the program is held up for an attached terminal that takes nothing. After that it loses output."""
SOCKET_PAUSE = 3.0
"""Seconds between looks whether the socket file is still there."""


class Supervisor:
    def __init__(self, settings: Settings, place: Place, lock: Lock, guard: int, guarded: int) -> None:
        self.settings = settings
        self.place = place
        self.lock = lock
        self.guard = guard
        self._guarded = guarded  # ends when the guard does
        self.loop = Loop()
        self.log = Log(settings.log_file or place.log, settings.id, settings.log_level)
        self.history = Rotated(place.out, OUTPUT_MAX)
        self.scrollback = Scrollback(settings.scrollback_bytes, BACKLOG)
        self.watch = Watch(settings, now_ms(), place.state)
        self.recorder: Recorder | None = None
        self.size = (settings.cols, settings.rows)
        self.sizes = [(0, *self.size)]  # from which offset of the output on
        self.started = time.time()
        self.last_output = time.monotonic()
        self.code: int | None = None
        self.reason = ""
        self.exec_report = -1  # ends when the program runs
        self.held = False  # the program's output is not read, as an attached terminal is behind
        self.exit_frame: bytes | None = None
        self.ending: ending.Ending | None = None
        self.done = False
        self.pty = Pty(*self.size)
        self.clients = Clients(self, sockets.listen(place.sock, owned=True))
        self._pidfd = -1
        self._died = 0.0
        self._note = ""
        self._waited: tuple[str, str | None] | None = None  # what a person has been notified of
        self._helpers: list[int] = []

    # Starting and running...

    def start(self) -> None:
        """Start the program. The socket is there already, so that nobody comes too late for its first words."""
        settings = self.settings
        self.loop.watch(self._guarded, READ, self._guard_gone)
        if settings.record:
            from treadle.terminal.record import Recorder

            self.recorder = Recorder(settings, time.monotonic())
        waiting = signals.pipe((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))
        self.loop.watch(waiting, READ, lambda events: self._signalled(signals.drain(waiting)))
        env = child_environment(settings, self.place.state, os.environ)
        report = self.pty.spawn(settings.command, env, settings.workdir)
        self.lock.write(os.getpid(), self.pty.pid)
        self.exec_report = report
        self.loop.watch(report, READ, lambda events: self._exec_report(report))
        self.loop.watch(self.pty.master, READ, self._terminal_ready)
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self.pty.pid)
            self.loop.watch(self._pidfd, READ, lambda events: self._child_changed())
        self.loop.at("socket", time.monotonic() + SOCKET_PAUSE, self._look_at_socket)
        self._note = registry.note(os.getpid(), self.guard, self.pty.pid, settings.command)
        self.log("info", "started", pid=self.pty.pid, command=list(settings.command), workdir=settings.workdir)

    def _look_at_socket(self) -> None:
        if not self.lock.replaced:
            self.clients.listen_again()
        self.loop.at("socket", time.monotonic() + SOCKET_PAUSE, self._look_at_socket)

    def run(self) -> int:
        """Serve until the program has ended and the linger time is over. Gives the program's exit code."""
        while not self.done:
            self.loop.turn()
        self.clients.close()
        for path in (self.place.state, self._note):
            try:
                os.unlink(path)
            except OSError:
                pass
        self.lock.remove()
        return self.code if self.code is not None else 1

    def cannot_run(self, patience: float) -> str:
        """Why the program could not be started, as soon as that is known; "" when it runs."""
        deadline = time.monotonic() + patience
        while self.exec_report >= 0 and time.monotonic() < deadline:
            self.loop.at("exec", deadline, lambda: None)
            self.loop.turn()
        self.loop.cancel("exec")
        return self.reason

    # The terminal...

    def _terminal_ready(self, events: int) -> None:
        if events & WRITE:
            self.pty.flush()
            self._watch_terminal()
            self.clients.input_moved()
        if events & READ:
            self._read_output()

    def _read_output(self) -> int:
        data = self.pty.read()
        if data:
            self._output(data)
        if self.pty.hung_up:
            self.loop.forget(self.pty.master)
            if self.code is not None:
                self._finish()
            else:
                self.loop.at("reopen", time.monotonic() + REOPEN, self._reopen)
        return len(data)

    def _reopen(self) -> None:
        """Every process had closed the terminal, but one that lives can open it again."""
        self.pty.hung_up = False
        self._watch_terminal()

    def _output(self, data: bytes) -> None:
        if self.exit_frame is not None:
            return  # EXIT is the last that anybody hears; who still writes has outlived the program
        self.last_output = now = time.monotonic()
        self.clients.output(data)
        if self.code is None and not self.held and self.clients.lagging():
            self._hold()
        self.history.write(data)
        if self.recorder:
            self.recorder.output(data, now)
        answers = self.watch.output(data, now_ms(), self.clients.leader is not None, self.size)
        if answers and self.code is None:
            self.type(answers)
        self._look_later()

    def type(self, data: bytes) -> None:
        if self.code is None:
            self.pty.queue(data)
            self.pty.flush()
            self._watch_terminal()

    @property
    def input_full(self) -> bool:
        return self.pty.input_queued > INPUT_MAX

    def _watch_terminal(self) -> None:
        if not self.pty.hung_up:
            events = (0 if self.held else READ) | (WRITE if self.pty.input_queued else 0)
            self.loop.watch(self.pty.master, events, self._terminal_ready)

    def _hold(self) -> None:
        """Leave the output where it is until an attached terminal has caught up, or has taken nothing for too long."""
        self.held = True
        self._watch_terminal()
        cursors = {client.number: client.cursor for client in self.clients.lagging()}
        self.loop.at("hold", time.monotonic() + HOLD_MAX, lambda: self._held_long(cursors))

    def _held_long(self, cursors: dict[int, int]) -> None:
        for client in self.clients.lagging():
            if cursors.get(client.number) == client.cursor:
                client.given_up = True
                self.log("warn", "a terminal takes no output", client=client.number)
        if self.clients.lagging():
            self._hold()
        else:
            self.read_on()

    def read_on(self) -> None:
        self.held = False
        self.loop.cancel("hold")
        self._watch_terminal()

    def resize(self, cols: int, rows: int) -> None:
        self.pty.resize(cols, rows)  # also to the same: the program may have set another one
        if (cols, rows) == self.size:
            return
        self.size = (cols, rows)
        self.sizes.append((self.scrollback.end, cols, rows))
        del self.sizes[:-1000]
        if self.recorder:
            self.recorder.resize(cols, rows, time.monotonic())
        self.watch.resized(cols, rows)
        self.clients.tell(wire.WANT_SIZES, wire.Size(cols, rows))

    # The state...

    def look(self) -> None:
        """See what the program is doing, and tell those who want to know."""
        detail = self.watch.detail(now_ms())
        if self.clients.want_states:
            self.clients.tell_state(detail)
        if detail["name"] in WAITING and self._waited != (detail["name"], detail["message"]):
            self._waited = (detail["name"], detail["message"])
            self._notify(detail)
        elif detail["name"] not in WAITING and not detail.get("settling"):
            self._waited = None
        self._look_later()

    def _look_later(self) -> None:
        """Look again when the state may be another one, or now if somebody waits for it."""
        now = now_ms()
        change = self.watch.next_change(now, watched=self.clients.want_states or bool(self.settings.notify))
        if change is None:
            self.loop.cancel("look")
        else:
            self.loop.at("look", time.monotonic() + max(change - now, 1) / 1000, self.look)

    def _notify(self, detail: dict[str, Any]) -> None:
        """Run the command that the person asked for. Its parent is the shell, so that nobody waits for it."""
        if not self.settings.notify:
            return
        env = child_environment(self.settings, self.place.state, os.environ)
        env |= {"TREADLE_ID": self.settings.id, "TREADLE_STATE": detail["name"]}
        env |= {"TREADLE_MESSAGE": detail["message"] or "", "TREADLE_DIR": self.settings.workdir}
        try:
            self._helpers.append(run_in_background(self.settings.notify, env))
        except OSError as error:
            self.log("warn", "cannot notify", reason=str(error))

    # The end of the program...

    def _exec_report(self, report: int) -> None:
        self.reason = os.read(report, 4096).decode(errors="replace")
        self.loop.forget(report)
        os.close(report)
        self.exec_report = -1
        if self.reason:
            self.log("error", "not started", reason=self.reason)

    def _child_changed(self) -> None:
        """Look whether the child has ended. One that has only been stopped has not."""
        self._helpers = [pid for pid in self._helpers if not _ended(pid)]
        if self.code is not None:
            return
        try:
            pid, status = os.waitpid(self.pty.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self.pty.pid, -1
        if not pid:
            return
        self.code = -1 if status == -1 else ending.exit_code(status)
        if self.exec_report >= 0:  # why it never ran is to be in the exit record
            self._exec_report(self.exec_report)
        if self._pidfd >= 0:
            self.loop.forget(self._pidfd)
            os.close(self._pidfd)
        self.pty.drop_input()
        self.loop.cancel("reopen")
        self.pty.hung_up = False
        self._died = time.monotonic()
        self._drain(self._died + DRAIN_MAX)

    def _drain(self, deadline: float) -> None:
        """Read what is left. The hang-up ends it, or silence when somebody else still has the terminal open."""
        for _ in range(DRAIN_READS):
            more = self._read_output()
            if not more:
                break
        now = time.monotonic()
        again = min(deadline, now if more else max(now, self._died + QUIET, self.last_output + QUIET))
        if self.pty.hung_up or now >= deadline or (not more and again <= now):
            self._finish()
        else:
            self.loop.at("drain", again, lambda: self._drain(deadline))

    def _finish(self) -> None:
        """All output is out: write down how it ended, then tell everybody."""
        if self.exit_frame is not None or self.code is None:
            return
        self.loop.cancel("drain")
        self.watch.died(now_ms())
        self._keep_exit()
        if self.recorder:
            self.recorder.close(self.code, time.monotonic())
        self.exit_frame = wire.encode(wire.Exit(self.code))
        self.log("info", "exited", code=self.code, bytes_not_logged=self.history.lost)
        self.look()
        self.clients.pump_all()
        if self.settings.kill_process_group:
            self.end(LEFTOVERS_GRACE)
        self.loop.at("linger", time.monotonic() + self.settings.linger, self._linger_over)

    def _keep_exit(self) -> None:
        record = {
            "format": 1,
            "id": self.settings.id,
            "code": self.code,
            "reason": self.reason or None,
            "command": list(self.settings.command),
            "workdir": self.settings.workdir,
            "pid": self.pty.pid,
            "started": timestamp(self.started),
            "ended": timestamp(time.time()),
            "output_bytes": self.scrollback.end,
            "sizes": self.sizes,
        }
        data = f"{dumps(mended(record))}\n".encode()
        if self.lock.replaced:
            return self.log("warn", "exit record not kept", reason="another terminal has this id by now")
        try:
            try:
                write_atomic(self.place.exit, data, sync=False)
            except StorageError:
                self.history.give_back(GIVEN_BACK)  # the disk is full, and how it ended matters more
                write_atomic(self.place.exit, data, sync=False)
        except StorageError as error:
            self.log("error", "exit record not kept", reason=str(error))

    def _linger_over(self) -> None:
        if self.ending is None:
            self.done = True
        else:
            self.loop.at("linger", time.monotonic() + 0.05, self._linger_over)

    # Ending it...

    def kill(self) -> None:
        """The protocol's KILL: one SIGTERM, to the group."""
        if self.code is None:
            if self.settings.kill_process_group:
                ending.signal_group(self.pty.pid, signal.SIGTERM)
            else:
                os.kill(self.pty.pid, signal.SIGTERM)  # not collected yet, so it is still the one

    def end(self, grace: float) -> None:
        """Ask, wait, kill, over all that belongs to the terminal. `clients.ended` is told when it is done."""
        if self.ending is None:
            self.ending = ending.Ending(self.pty.pid, self.guard, grace, time.monotonic(), self.place.state)
        else:
            self.ending.sooner(time.monotonic() + grace)
        self._step_ending()

    def _step_ending(self) -> None:
        if self.ending is None:
            return
        again = self.ending.step(time.monotonic())
        if again is not None or self.exit_frame is None:
            self.loop.at("ending", again or time.monotonic() + 0.02, self._step_ending)
            return
        if self.ending.ended:
            self.log("info", "ended", processes=self.ending.ended)
        report = {
            "code": self.code,
            "ended": self.ending.ended,
            "survivors": self.ending.survivors,
            "unseen": not self.guard,  # what left the tree would have become its child
        }
        self.ending = None
        self.clients.ended(report)

    def leave(self) -> None:
        """End the program if it runs, then go without lingering."""
        self.settings.linger = 0.0
        if self.exit_frame is None:
            self.end(STOP_GRACE)
        else:
            self.loop.at("linger", time.monotonic(), self._linger_over)

    def _signalled(self, numbers: bytes) -> None:
        if signal.SIGCHLD in numbers:
            self._child_changed()
        for number in numbers:
            if number != signal.SIGCHLD:
                self.log("info", "signal", number=number)
                self.leave()

    def _guard_gone(self, events: int) -> None:
        """Nobody would end the program if we were killed now, so end it in order while we can."""
        self.loop.forget(self._guarded)
        self.guard = 0
        self.log("warn", "the guard is gone")
        self.leave()

    # Answers...

    def status(self) -> wire.StatusReply:
        idle = int((time.monotonic() - self.last_output) * 1000)
        alive = self.exit_frame is None
        state, since = self.watch.state(now_ms())
        return wire.StatusReply.of(self.pty.pid, idle, alive, state, now_ms() - since)

    def detail(self) -> dict[str, Any]:
        cols, rows = self.size
        return {
            "format": 1,
            "id": self.settings.id,
            "supervisor": os.getpid(),
            "pid": self.pty.pid,
            "alive": self.exit_frame is None,
            "code": self.code,
            "reason": self.reason or None,
            "command": list(self.settings.command),
            "workdir": self.settings.workdir,
            "started": timestamp(self.started),
            "idle_ms": int((time.monotonic() - self.last_output) * 1000),
            "state": self.watch.detail(now_ms()),
            "last_line": self.watch.last_line(),
            "size": {"cols": cols, "rows": rows, "policy": self.settings.resize_policy, "changes": self.sizes},
            "modes": self.watch.modes(),
            "canonical": self.pty.canonical,
            "output": {
                "start": self.scrollback.replay_start,
                "end": self.scrollback.end,
                "file": self.history.path,
                "file_size": self.history.size,
                "lost": self.history.lost,
            },
            "clients": self.clients.roster(),
        }


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True

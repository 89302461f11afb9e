"""The supervisor: one process, one loop, one program in a pty.

No handler blocks, so no client can delay the program or another client. In whatever order the kernel reports things,
this order holds: all output, then the exit record, then EXIT, then the linger time in which late clients are served.
"""

from __future__ import annotations

import os
import signal
import time

from treadle.errors import StorageError, TreadleError
from treadle.io import sockets
from treadle.io.files import try_remove
from treadle.io.process import registry, signals, table
from treadle.io.process.signals import set_title
from treadle.io.process.tree import Tree, TreeEnd, WaitingReaper
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import aftermath, history
from treadle.terminal.clients import Clients
from treadle.terminal.history import OUTPUT_MAX, Log, Rotated, keep_exit
from treadle.terminal.lock import Lock
from treadle.terminal.loop import READ, WRITE, Loop, now_ms
from treadle.terminal.output import Scrollback
from treadle.terminal.places import TITLE, Place
from treadle.terminal.prompts import Prompts
from treadle.terminal.pty import Pty, run_in_background
from treadle.terminal.settings import TerminalSettings, child_environment
from treadle.terminal.state import Foreground, Watch
from treadle.terminal.states import LATE, WAITING
from treadle.wire.common.jsontext import timestamp
from treadle.wire.terminal import frames as wire

# When to check the program's state, and who is informed: clients, the summary for lists, and the person's command.

if TYPE_CHECKING:
    from typing import Protocol

    from treadle.terminal.clients import ServedTerminal

    class WatchedTerminal(ServedTerminal, Protocol):
        """What is watched: one program in a terminal, and those who follow it."""

        place: Place
        lock: Lock
        clients: Clients
        last_output: float


class Lookout:
    def __init__(self, session: WatchedTerminal) -> None:
        self.session = session
        self.loop = session.loop
        self._summed_up: tuple[object, ...] = ()  # the content of the summary on disk
        self._summary_at = 0.0
        self._output_since = False  # output has arrived since the next look was scheduled
        self._notified: tuple[str, str | None] | None = None  # the state that the person was last notified of

    def output(self, data: bytes) -> bytes:
        """Handle output. Returns what to type in answer to the program's queries to its terminal."""
        session = self.session
        self._output_since = session.watch.stale and self.loop.has("look")
        before = session.watch.accepted
        answers = session.watch.output(data, now_ms(), session.clients.leader is not None)
        if session.watch.accepted != before:  # as by a report: the others are informed now, and not at some later look
            self._output_since = False
            self.loop.at("look", time.monotonic(), self.look)
        elif not self._output_since:
            self.later()
        return answers

    def later(self) -> None:
        """Schedule the next look for when the state may change."""
        pause = self._pause()
        if pause is None:
            self.loop.cancel("look")
        else:
            self.loop.at("look", time.monotonic() + max(pause, 1) / 1000, self._due)

    def _pause(self) -> int | None:
        session, now = self.session, now_ms()
        watched = session.clients.want_states or bool(session.settings.notify)
        change = session.watch.next_change(now, watched=watched)
        return None if change is None else change - now

    def _due(self) -> None:
        """Output that came meanwhile may have postponed the look. That is checked here, not on every output."""
        if self.loop.late_ms >= LATE:
            self.session.watch.late(now_ms())
        if self._output_since and (self._pause() or 0) > 0:
            self._output_since = False
            self.later()
        else:
            self.look()

    def look(self) -> None:
        """Check what the program is doing, and tell those who want to know."""
        session = self.session
        detail = session.state()
        self._sum_up(detail)  # before it is announced, because clients may then look at the list
        if session.clients.want_states:
            session.clients.tell_state(detail)
        if detail["name"] in WAITING and self._notified != (detail["name"], detail["message"]):
            self._notified = (detail["name"], detail["message"])
            self._notify(detail)
        elif detail["name"] not in WAITING and not detail.get("settling"):
            self._notified = None
        self.later()
        session.prompts.step()

    def _sum_up(self, state: dict[str, Any]) -> None:
        """Keep the summary up to date: at once when the state has changed, else not too often."""
        if self.session.exit_frame is not None:
            self.loop.cancel("summary")
            return None if self.session.lock.replaced else try_remove(self.session.place.summary)
        says = tuple(state.get(key) for key in ("name", "agent", "message", "dialog", "hint"))
        says = (*says, *(prompt["number"] for prompt in self.session.prompts.listed()))
        if says != self._summed_up:
            self._summed_up = says
            self.write_summary()
        elif self.session.last_output > self._summary_at:
            self.loop.at("summary", self._summary_at + history.PAUSE, self.write_summary)

    def write_summary(self) -> None:
        self.loop.cancel("summary")
        session = self.session
        if session.lock.replaced:
            return
        self._summary_at = time.monotonic()
        history.write(session.place, session.detail(), int((self._summary_at - session.last_output) * 1000))

    def _notify(self, detail: dict[str, Any]) -> None:
        """Run the person's command. A shell is its parent, so that no one has to wait for it."""
        settings = self.session.settings
        if not settings.notify:
            return
        env = child_environment(settings, os.environ)
        env |= {"TREADLE_ID": settings.id, "TREADLE_STATE": detail["name"]}
        env |= {"TREADLE_MESSAGE": detail["message"] or "", "TREADLE_DIR": settings.workdir}
        try:
            run_in_background(settings.notify, env)
        except OSError as error:
            self.session.log("warn", "cannot notify", reason=str(error))


BACKLOG = 1024 * 1024
"""Output kept for lagging clients beyond the scrollback. They share it, so it does not grow with their number."""
INPUT_MAX = 1024 * 1024
"""After this many bytes of unread input, the clients that typed are not read from until the program has read some."""
QUIET = 0.05
DRAIN_MAX = 1.0
"""After the program's death the output ends with the hang-up. If a background process keeps the terminal open, it
ends after QUIET seconds of silence, or after DRAIN_MAX."""
DRAIN_READS = 16
"""At most this many reads in one turn of the loop, so that the clients are served meanwhile."""
NOT_STARTED = 127
"""The exit code when there is no such program, as in shells."""
LEFTOVERS_GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL for what the program left running."""
STOP_GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL when the supervisor itself is asked to leave."""
REOPEN = 0.5
"""Seconds. A pty hangs up when its last user closes it, though the program lives; until it is opened again there is
nothing to read, and `poll` would report the hang-up at once."""
ENDING_PAUSE = 0.02
"""Seconds between two looks whether nothing is left and all output is sent."""
HOLD_MAX = 5.0
"""How many seconds the program waits for an attached terminal that reads nothing. Then the terminal loses output."""
SOCKET_PAUSE = 3.0
"""Seconds between checks whether the socket file still exists."""


class Supervisor:
    def __init__(self, settings: TerminalSettings, place: Place, lock: Lock, reaper: WaitingReaper) -> None:
        self.settings = settings
        self.place = place
        self.lock = lock
        self.loop = Loop()
        self.log = Log(settings.log_file or place.log, settings.id, settings.log_level)
        self.history = Rotated(place.out, OUTPUT_MAX)
        self.scrollback = Scrollback(settings.scrollback_bytes, BACKLOG)
        self.watch = Watch(settings, now_ms(), settings.state_file)
        self.size = (settings.cols, settings.rows)
        self.sizes = [(0, *self.size)]  # each with the output offset from which it applies
        self.started = time.time()
        self.last_output = time.monotonic()
        self.pid = 0  # of the program
        self.code: int | None = None
        self.reason = ""
        self.held = False  # the program's output is not read, because an attached terminal is behind
        self.exit_frame: bytes | None = None
        self.ending = False  # everything in the terminal has been asked to end
        self.done = False
        self.pty = Pty(*self.size)
        self.prompts = Prompts(self)
        self.clients = Clients(self, sockets.listen(place.sock, owned=True), place.sock)
        self.lookout = Lookout(self)
        self._reaper = reaper
        self._tree: Tree | None = None
        self._report: TreeEnd | None = None  # how the tree ended
        self._status: int | None = None  # the program's exit status, if its reaper died before it could report it
        self._died = 0.0
        self._signalled_to_end = False  # by a signal, as when the machine shuts down: it can be restored

    # Starting and running...

    def start(self) -> None:
        """Start the program. The socket exists already, and those who connect are served once the program runs."""
        set_title(f"{TITLE}{self.settings.id}")
        settings = self.settings
        waiting = signals.pipe((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1))
        self.loop.watch(waiting, READ, lambda events: self._signalled(signals.drain(waiting)))
        self._tree = self._reaper.start(
            [*settings.wrapper, *settings.command],
            env=child_environment(settings, os.environ),
            cwd=settings.workdir,
            terminal=self.pty.slave,
            inherited=[self.lock.fd],
            afterwards=aftermath.program(self.place, settings.log_file or self.place.log, settings.command),
            patient=bool(settings.wrapper),
        )
        os.close(self.pty.slave)
        self.loop.watch(self._tree.fileno(), READ, lambda events: self._tree_changed())
        self.loop.watch(self.pty.master, READ, self._terminal_ready)
        self.loop.at("socket", time.monotonic() + SOCKET_PAUSE, self._look_at_socket)

    def _look_at_socket(self) -> None:
        """Make again what was removed: the socket, or the whole directory."""
        try:
            if not self.lock.replaced:
                if self.lock.restore(os.getpid(), self.pid):
                    self.log("warn", "the pid file was removed, and is there again")
                    self.lookout.write_summary()
                self.clients.listen_again()
        except TreadleError as error:
            self.log("warn", "the files are gone", reason=str(error))
        self.loop.at("socket", time.monotonic() + SOCKET_PAUSE, self._look_at_socket)

    def run(self) -> int:
        """Serve until the program has ended and the linger time is over. Returns the program's exit code."""
        while not self.done:
            self.loop.turn()
        self.put_away()
        return self.code if self.code is not None else 1

    def put_away(self) -> None:
        """Remove everything except a terminal's permanent files."""
        self.clients.close()
        if self._tree:
            self._let_go(self._tree)
        ended = [] if self._signalled_to_end or self.lock.replaced else [self.place.start]
        for path in (self.settings.state_file, *ended):
            try_remove(path)
        self.lock.remove()

    def _let_go(self, started: Tree) -> None:
        """Leave the rest of the tree running, and wait for the reaper to agree: it would take our exit for a kill."""
        if not started.ended:
            started.leave()
        deadline = time.monotonic() + LEFTOVERS_GRACE
        while started.reaper in table.children() and time.monotonic() < deadline:
            self._collect()
            time.sleep(0.001)

    def cannot_run(self, patience: float) -> str:
        """Why the program could not be started, as soon as that is known; "" when it runs."""
        deadline = time.monotonic() + patience
        while not self.pid and self.code is None and time.monotonic() < deadline:
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
        """Every process had closed the terminal, but a living one can open it again."""
        self.pty.hung_up = False
        self._watch_terminal()

    def _output(self, data: bytes) -> None:
        if self.exit_frame is not None:
            return  # nothing follows EXIT; the one who still writes has outlived the program
        self.last_output = time.monotonic()
        self.clients.output(data)
        if self.code is None and not self.held and self.clients.lagging():
            self._hold()
        self.history.write(data)
        if answers := self.lookout.output(data):
            self.type(answers)

    def type(self, data: bytes) -> None:
        if self.code is None and self.pty.type(data):
            self._watch_terminal()

    @property
    def input_full(self) -> bool:
        return self.pty.input_queued > INPUT_MAX

    def _watch_terminal(self) -> None:
        if not self.pty.hung_up:
            events = (0 if self.held else READ) | (WRITE if self.pty.input_queued else 0)
            self.loop.watch(self.pty.master, events, self._terminal_ready)

    def _hold(self) -> None:
        """Stop reading the output until an attached terminal has caught up, or has read nothing for too long."""
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
        self.pty.resize(cols, rows)  # even to the same size: the program may have set another one
        if (cols, rows) == self.size:
            return
        self.size = (cols, rows)
        self.sizes.append((self.scrollback.end, cols, rows))
        del self.sizes[:-1000]
        self.watch.resized(cols, rows)
        self.clients.tell(wire.WANT_SIZES, wire.Size(cols, rows))

    def look(self) -> None:
        self.lookout.look()

    def state(self) -> dict[str, Any]:
        """What the program is doing, judged by all that it has written until now."""
        self._catch_up()
        return self.watch.detail(now_ms())

    def _catch_up(self) -> None:
        """Read what is there to be read. If that is more than can be read at once, we are too slow to judge."""
        more = 0
        if self.code is None and not self.held and not self.pty.hung_up:
            for _ in range(DRAIN_READS):
                more = self._read_output()
                if not more or self.held or self.pty.hung_up:
                    break
        self.watch.behind = self.held or more > 0

    # The end of the program...

    def _tree_changed(self) -> None:
        """Handle the reaper's reports: that the program runs or could not start, its exit, and that nothing is left."""
        started = self._tree
        assert started
        started.update()
        if started.pid and not self.pid:
            self.pid = started.pid
            self.watch.pulse.processes = lambda: table.group(self.pty.foreground, started.reaper)
            self.watch.foreground = self._foreground
            self.watch.dialogs.keys_read = lambda: not self.pty.unread
            self.clients.open()
            self.lock.write(os.getpid(), self.pid)
            self.log(
                "info", "started", pid=self.pid, command=list(self.settings.command), workdir=self.settings.workdir
            )
            self.look()
        if started.failure and self.code is None:
            self._failed(started.failure.message)
        if started.ended:
            self.loop.forget(started.fileno())
            self._report = started.report or TreeEnd()
            if not started.report and not started.failure:
                self._reaper_gone(started)
        status = self._status if started.ended and started.exit_code is None else started.exit_code
        if status is not None:
            self._exited(status)

    def _foreground(self) -> Foreground:
        group = self.pty.foreground
        return Foreground(group, table.command_line(group), self.pty.canonical, self.pty.echo)

    def _failed(self, why: str) -> None:
        """The program never ran: say so where its output would be."""
        self.clients.open()
        self.reason = f"{why} (in {self.settings.workdir})"
        self.log("error", "not started", reason=self.reason)
        self._output(f"treadle: {self.reason}\r\n".encode(errors="replace"))
        self._exited(NOT_STARTED)

    def _reaper_gone(self, started: Tree) -> None:
        """Someone killed the reaper. Its processes are our children now, and would survive if we were killed too."""
        self.log("warn", "the reaper is gone")
        started.close()
        ended, left = registry.end(self._below, LEFTOVERS_GRACE)
        self._report = TreeEnd(ended, left=left)
        self._exited(128 + signal.SIGKILL if self._status is None else self._status)
        self.leave()

    def _below(self) -> list[table.Process]:
        self._collect()
        return table.descendants(os.getpid())

    def _collect(self) -> None:
        """Collect dead children: helpers, the reaper, and what became our child when it was killed."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self.pid:
                    self._status = os.waitstatus_to_exitcode(found[1])
        except ChildProcessError:
            pass

    def _exited(self, status: int) -> None:
        """The program has ended; `status` is its exit code, or a negative signal number."""
        if self.code is not None:
            return
        self.code = 128 - status if status < 0 else status
        self.pty.drop_input()
        self.loop.cancel("reopen")
        self.pty.hung_up = False
        self._died = time.monotonic()
        self._drain(self._died + DRAIN_MAX)

    def _drain(self, deadline: float) -> None:
        """Read the remaining output, up to the hang-up, or to silence if another process keeps the terminal open."""
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
        """All output is sent: record how it ended, then tell everybody."""
        if self.exit_frame is not None or self.code is None:
            return
        self.loop.cancel("drain")
        self.watch.died(now_ms())
        self._keep_exit()
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
            "pid": self.pid,
            "started": timestamp(self.started),
            "ended": timestamp(time.time()),
            "output_bytes": self.scrollback.end,
            "output_lost": self.history.lost,
            "sizes": self.sizes,
        }
        if self.lock.replaced:
            return self.log("warn", "exit record not saved", reason="another terminal has this id by now")
        try:
            keep_exit(self.place.exit, record, self.history)
        except StorageError as error:
            self.log("error", "exit record not saved", reason=str(error))

    def _linger_over(self) -> None:
        if not self.ending:
            self.done = True
        else:
            self.loop.at("linger", time.monotonic() + 0.05, self._linger_over)

    # Ending it...

    def kill(self) -> None:
        """The protocol's KILL: one SIGTERM to the process group."""
        if self._tree and self.code is None:
            self._tree.signal(signal.SIGTERM, group=self.settings.kill_process_group or bool(self.settings.wrapper))

    def end(self, grace: float) -> None:
        """End everything in the terminal: ask, wait, kill. `clients.ended` is called when it is done."""
        self.ending = True
        if self._tree:
            self._tree.ask_stop(grace)
        self._ended()

    def _ended(self) -> None:
        """Report the end once nothing is left and all output is sent."""
        if self._report is None or self.exit_frame is None:
            self.loop.at("ending", time.monotonic() + ENDING_PAUSE, self._ended)
            return
        ended = [{"pid": pid, "name": name, "by": signal.Signals(by).name} for pid, name, by in self._report.ended]
        if ended:
            self.log("info", "ended", processes=ended)
        left = [{"pid": pid, "name": name} for pid, name in self._report.left]
        self.ending = False
        self.clients.ended({"code": self.code, "ended": ended, "survivors": left, "unseen": False})

    def leave(self) -> None:
        """End the program if it runs, then exit without lingering."""
        self.settings.linger = 0.0
        if self.exit_frame is None:
            self.end(STOP_GRACE)
        else:
            self.loop.at("linger", time.monotonic(), self._linger_over)

    def _signalled(self, numbers: bytes) -> None:
        if signal.SIGCHLD in numbers:
            self._collect()
            if self._status is not None and self._tree and self._tree.ended:
                self._exited(self._status)  # its reaper had given it up: SIGKILL did not end it in time
        if signal.SIGUSR1 in numbers:
            self._look_at_socket()
        for number in numbers:
            if number not in (signal.SIGCHLD, signal.SIGUSR1):
                self.log("info", "signal", number=number)
                self._signalled_to_end = True
                self.leave()

    # Answers...

    def status(self) -> wire.StatusReply:
        idle = int((time.monotonic() - self.last_output) * 1000)
        alive = self.exit_frame is None
        self._catch_up()
        state, since = self.watch.state(now_ms())
        return wire.StatusReply.of(self.pid, idle, alive, state, now_ms() - since)

    def detail(self) -> dict[str, Any]:
        cols, rows = self.size
        return {
            "format": 1,
            "id": self.settings.id,
            "supervisor": os.getpid(),
            "pid": self.pid,
            "alive": self.exit_frame is None,
            "code": self.code,
            "reason": self.reason or None,
            "command": list(self.settings.command),
            "workdir": self.settings.workdir,
            "state_file": self.settings.state_file,
            "started": timestamp(self.started),
            "idle_ms": int((time.monotonic() - self.last_output) * 1000),
            "state": self.state(),
            "prompts": self.prompts.listed(),
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

"""The keeper of this machine's fleet: starts its nodes and its page again when they are gone, until `fleet down`.

`fleet up` writes down what is watched (`watched.json`) and starts the keeper. The keeper starts nodes and the page
again; a node starts the engine again, and the keeper. A second keeper stands by and takes over when the first is gone,
so that a node and its keeper may be killed at once. What is gone a sixth time within ten minutes has failed, with its
last lines, and waits for a person. A unit of the user's systemd brings all of it back after the machine was restarted.
"""

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from treadle.errors import Busy, LocalError, TreadleError
from treadle.fleet.engine import places
from treadle.fleet.engine.places import ProcessNote
from treadle.io.files import is_locked, locked, read_if_there, write_atomic
from treadle.io.paths import state_dir
from treadle.io.process import table
from treadle.io.process.loop import hold_secrets
from treadle.io.process.programs import run_program
from treadle.io.process.tree import daemon
from treadle.io.records import FileRecord

log = logging.getLogger(__name__)

MOST, WITHIN_SECONDS = 5, 600.0
"""How often something is started again within this time, before it counts as failed."""
LOOK_SECONDS = 1.0
START_SECONDS, STOP_SECONDS = 60.0, 90.0
LAST_BYTES, LAST_LINES = 4096, 5


class WatchedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that is started again. It lives while its `lock` is held, or the process in its `note` is there."""

    argv: tuple[str, ...]
    cwd: str
    log: str
    lock: str = ""
    note: str = ""


class WatchedProcesses(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 1
    processes: dict[str, WatchedProcess] = {}


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """How often something was started again, when lately, and why no more."""

    total: int = 0
    lately: tuple[float, ...] = ()
    failed: str = ""


NOTE = FileRecord(ProcessNote)
WATCHED = FileRecord(WatchedProcesses, format=1)
RESTARTS = FileRecord(Restarts)


def _path(name: str, *, made: bool = False) -> str:
    return os.path.join(places.inside("keeper") if made else os.path.join(places.root(), "keeper"), name)


def watched() -> dict[str, WatchedProcess]:
    return (WATCHED.load_whole(_path("watched.json")) or WatchedProcesses()).processes


def keep(name: str, what: WatchedProcess) -> None:
    """Have it started again from now on whenever it is gone. What has failed before is forgiven."""
    forgive([name])
    _change(lambda known: {**known, name: what})
    ensure()


def _change(changed: Callable[[dict[str, WatchedProcess]], dict[str, WatchedProcess]]) -> None:
    with WATCHED.locked(_path("watched.json", made=True)):
        WATCHED.save(_path("watched.json"), WatchedProcesses(processes=changed(watched())))


@contextmanager
def left_alone(name: str) -> Iterator[None]:
    """For as long as another stands in for it, it is not started again."""
    mine = watched().get(name)
    if mine is not None:
        _change(lambda known: {other: each for other, each in known.items() if other != name})
    try:
        yield
    finally:
        if mine is not None and running() is not None:
            keep(name, mine)


def ensure() -> None:
    """Start the keeper, or the one that stands by, unless both run or there is nothing to keep."""
    if watched() and not (is_locked(_path("lock")) and is_locked(_path("standby"))):
        argv = [sys.executable, "-P", "-m", "treadle.fleet.keeper"]
        daemon(argv, cwd=places.root(), log=_path("keeper.log", made=True))


def running() -> ProcessNote | None:
    noted = NOTE.load_whole(_path("keeper.json")) if is_locked(_path("lock")) else None
    return noted if noted is not None and noted.alive else None


def stop() -> bool:
    """End the keeper and wait for it: nothing is started again. False when there was none."""
    if watched():
        _change(lambda known: {})
    found, deadline = running(), time.monotonic() + STOP_SECONDS
    if found is not None:
        found.signal(signal.SIGTERM)
    while is_locked(_path("lock")) or is_locked(
        _path("standby")
    ):  # it finishes what it is starting, so that what came of it is seen and ended
        if time.monotonic() > deadline:
            raise LocalError("the keeper did not end", hint=f"see {_path('keeper.log')}")
        time.sleep(0.02)
    return found is not None


# How often.


def restarts(name: str) -> Restarts:
    return RESTARTS.load_whole(_path(f"restarts-{name}.json")) or Restarts()


def _store(name: str, known: Restarts) -> None:
    RESTARTS.save(_path(f"restarts-{name}.json", made=True), known)


def forgive(names: Iterable[str]) -> None:
    for name in names:
        _store(name, Restarts(total=restarts(name).total))


def may_start(name: str, log_path: str) -> bool:
    """Whether it may be started once more. If not, what it said last is stored with that."""
    known = restarts(name)
    lately = [at for at in known.lately if 0 <= time.time() - at < WITHIN_SECONDS]
    if not known.failed and len(lately) >= MOST:
        why = f"it was started again {MOST} times within {WITHIN_SECONDS / 60:g} minutes; its last lines:"
        known = msgspec.structs.replace(known, failed="\n  ".join([why, *_last_lines(log_path)]))
        _store(name, known)
        log.error("%s has failed: %s", name, known.failed)
    return not known.failed


def started(name: str) -> None:
    known, now = restarts(name), time.time()
    lately = (*(at for at in known.lately if 0 <= now - at < WITHIN_SECONDS), now)
    _store(name, Restarts(total=known.total + 1, lately=lately))
    log.warning("%s was gone and is started again", name)


def _last_lines(path: str) -> list[str]:
    text = (read_if_there(path) or b"")[-LAST_BYTES:].decode(errors="replace")
    return text.strip().splitlines()[-LAST_LINES:] or ["none"]


# The process.


def lives(each: WatchedProcess) -> bool:
    if each.lock:
        return is_locked(each.lock)
    noted = NOTE.load_whole(each.note)
    return noted is not None and noted.alive


def main() -> None:
    """`python -m treadle.fleet.keeper`: until it is told to end or nothing is kept any more."""
    hold_secrets()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    with suppress(Busy):  # there are both
        try:
            _keep(ending)
        except Busy:
            with locked(_path("standby"), 0):
                while not ending.is_set() and watched() and is_locked(_path("lock")):
                    ending.wait(LOOK_SECONDS)
            if watched():
                _keep(ending)


def _keep(ending: threading.Event) -> None:
    with locked(_path("lock", made=True), 0):
        NOTE.save(_path("keeper.json"), ProcessNote.mine())
        while not ending.is_set() and (wanted := watched()):
            ensure()
            for name, each in wanted.items():
                _look(name, each)
            ending.wait(LOOK_SECONDS)


def _look(name: str, each: WatchedProcess) -> None:
    try:
        if lives(each) or not may_start(name, each.log) or watched().get(name) != each:
            return
        started(name)
        pid = daemon(each.argv, cwd=each.cwd, log=each.log)
        start, deadline = table.start_time(pid), time.monotonic() + START_SECONDS
        while not lives(each) and table.lives(pid, start) and time.monotonic() < deadline:
            time.sleep(0.05)
    except (TreadleError, OSError) as error:  # such as a full disk: it is tried again at the next look
        log.error("%s cannot be started: %s", name, error)


# A unit of the user's systemd.


def systemd_available() -> bool:
    """Whether the user has a systemd that accepts units."""
    if shutil.which("systemctl") is None:
        return False
    return run_program(["systemctl", "--user", "show-environment"], timeout=20).code == 0


def node_unit(name: str) -> str:
    """Of a node. Runners outlive it, so systemd must end only the node's own process."""
    command = _word(sys.executable) + f" -P -m treadle.fleet.node {_word(name)}"
    return _unit(f"Treadle fleet node {name}", f"ExecStart={command}\nRestart=always\nRestartSec=2")


def fleet_unit(page: bool) -> str:
    """Of all that `fleet up` starts, which goes on as it was; the keeper restarts what is gone, so systemd does not."""
    called = "import sys; from treadle.cli import main; sys.exit(main())"
    command, more = f"{_word(sys.executable)} -P -c {_word(called)} fleet", "" if page else " --no-page"
    words = f"Type=oneshot\nRemainAfterExit=yes\nExecStart={command} up{more}\nExecStop={command} down"
    return _unit("Treadle fleet", f"{words}\nTimeoutStartSec=180\nTimeoutStopSec=180")


def _unit(title: str, service: str) -> str:
    home, path = _word(f"TREADLE_HOME={state_dir()}"), _word(f"PATH={os.environ.get('PATH', os.defpath)}")
    return f"""[Unit]
Description={title.replace("%", "%%")}

[Service]
Environment={home}
Environment={path}
{service}
KillMode=process

[Install]
WantedBy=default.target
"""


def _word(text: str) -> str:
    """As one word of a unit."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$") + '"'


def write_unit(name: str, text: str) -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    place = os.path.join(home, "systemd", "user")
    os.makedirs(place, exist_ok=True)
    write_atomic(os.path.join(place, name), text.encode(), 0o644)
    return os.path.join(place, name)


def enable_unit(name: str, *, now: bool) -> None:
    for words in (["daemon-reload"], ["enable", *(["--now"] if now else []), name]):
        done = run_program(["systemctl", "--user", *words], timeout=60)
        if done.code:
            raise LocalError(f"systemctl --user {' '.join(words)} failed: {done.complaint}")
    # Without it, systemd ends what it started when the user logs out. Not everybody may ask for it.
    run_program(["loginctl", "enable-linger"], timeout=20) if shutil.which("loginctl") else None


if __name__ == "__main__":
    main()

"""`treadle run`, `attach`, `wall`, `replay` and `share`: start a terminal, join it, watch it."""

from __future__ import annotations

import os
import sys
import time

from treadle.cli.arguments import Arguments, UsageError, small
from treadle.cli.terminal import WHERE, directory, duration, place, show, warn
from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.terminal.places import Place
    from treadle.terminal.restore import LostTerminal
    from treadle.terminal.settings import TerminalSettings


# `treadle run`.

TEXT = "--id --workdir --classifier --session-env-var --log-file --log-level --notify --resize --term"
NUMBERS = "--cols --rows --scrollback-bytes --idle-threshold-ms --debounce-ms"
OPTIONS = f"{TEXT} {NUMBERS} --linger --kill-process-group {WHERE}"


def attaches(arguments: list[str]) -> bool:
    """Whether the command attaches to this terminal, rather than only starting something in the background."""
    try:
        return "--detach" not in run_command.read(arguments).flags
    except UsageError:
        return False  # the error is reported without a terminal


RUN_HELP = """Run a program in a terminal that stays when you disconnect.

    treadle run [OPTIONS] [--] COMMAND [ARGUMENT...]

Starts it in the background and attaches to it. Ctrl-\\ detaches; the program continues.

  --id ID               the terminal's id (default: the program's name)
  --detach              do not attach: print the id once the socket is ready (default without a terminal)
  --foreground          run the supervisor in the foreground, for systemd; with --linger 0 it exits with the program
  --workdir DIR         working directory (default: the current one)
  --worktree            work in a separate checkout of the current commit, with its own .git; see `treadle diff ID` and
                        `treadle merge ID`
  --cols N --rows N     terminal size (default: 220 x 50, or this terminal's when attaching)
  --env NAME=VALUE      set an environment variable; repeatable
  --term NAME           value of TERM (default: the current one, or xterm-256color)
  --classifier NAME     state detection: simple, claude or none (default: simple)
  --idle-threshold-ms N milliseconds of silence until it is idle (default: 3000)
  --debounce-ms N       minimum duration of a new state in milliseconds, for claude (default: 200)
  --scrollback-bytes N  output sent to a new client (default: 65536)
  --resize POLICY       which client sets the size: latest, smallest, leader or fixed (default: latest)
  --notify COMMAND      shell command to run when it starts to wait for a person; gets TREADLE_ID, TREADLE_STATE,
                        TREADLE_MESSAGE and TREADLE_DIR
  --linger SECONDS      how long the supervisor answers after the program's end (default: 3)
  --own-pids            run in a PID namespace (bwrap), so that the kernel ends every process even if all of Treadle's
                        are killed at once
  --kill-process-group=BOOL
                        false: signal only the program itself, and leave its children running (default: true)
  --session-env-var NAME
                        environment variable with its id (default: HEIMDALL_SESSION_ID)
  --log-file FILE, --log-level LEVEL
                        the supervisor's log file and log level (default: ID.log, info)
  --socket-dir DIR, --config FILE
                        directory of the terminals; configuration file
"""


@small(RUN_HELP, OPTIONS, "--detach --foreground --bar --worktree --own-pids", "--env", stop=True)
def run_command(given: Arguments) -> int:
    attaching = not given.flags & {"--detach", "--foreground"} and os.isatty(0)
    settings = _settings(given)
    if "--id" in given.values:
        from treadle.terminal.places import check_id

        check_id(settings.id)
    if "--worktree" in given.flags:
        return _in_worktree(given, settings, attaching)
    return _start(given, settings, attaching)


def _in_worktree(given: Arguments, settings: TerminalSettings, attaching: bool) -> int:
    from treadle.terminal import worktree

    if "--foreground" in given.flags:
        raise UsageError("--worktree starts it in the background, so that its changes can be merged")
    worktree.check_free(settings)
    made = worktree.make(settings.id or os.path.basename(settings.command[0] if settings.command else ""), settings)
    for note in made.notes:
        warn(f"treadle: {note}")
    return _start(given, settings, attaching, made.discard)


def _start(
    given: Arguments, settings: TerminalSettings, attaching: bool, undo: Callable[[], None] | None = None
) -> int:
    """`undo` is called when it could not be started."""
    if attaching and not given.values.keys() & {"--cols", "--rows"}:
        settings.cols, settings.rows = os.get_terminal_size(0)
    if "--foreground" in given.flags:
        from treadle.terminal.launch import serve

        return serve(settings)
    from treadle.terminal.launch import launch

    try:
        place = launch(settings, leaving=True)
    except BaseException:
        if undo:
            undo()
        raise
    if not attaching:
        sys.stdout.write(f"{place.id}\n")
        return 0
    return _join(place, settings, bar="--bar" in given.flags)


def _settings(given: Arguments) -> TerminalSettings:
    from treadle.terminal import config
    from treadle.terminal.settings import TerminalSettings

    settings = TerminalSettings()
    for line in config.load(settings, given.get("--config")):
        warn(f"treadle: {line}")
    if "--classifier" in given.values:  # the thresholds in the file are meant for the classifier in the file
        settings.idle_threshold_ms, settings.debounce_ms = 3000, 200
    for option in given.values.keys() & {*TEXT.split(), *NUMBERS.split()}:
        name, value = option.removeprefix("--").replace("-", "_"), given.values[option]
        if option in NUMBERS.split() and not value.isdigit():
            raise UsageError(f"{option} must be a whole number, not {value!r}")
        name = "resize_policy" if name == "resize" else name
        setattr(settings, name, int(value) if option in NUMBERS.split() else value)
    if "--own-pids" in given.flags:
        from treadle.terminal.launch import wrapper

        settings.wrapper = wrapper()
    settings.linger = given.number("--linger", settings.linger)
    if "--kill-process-group" in given.values:
        settings.kill_process_group = given.values["--kill-process-group"].lower() not in ("false", "no", "0")
    if directory := given.get("--socket-dir"):
        settings.directory = os.path.expanduser(directory)
    for entry in given.lists["--env"]:
        name, equals, value = entry.partition("=")
        if not name or not equals:
            raise UsageError(f"--env needs NAME=VALUE, not {entry!r}")
        settings.env.append((name, value))
    settings.command = given.rest
    return settings


# `treadle restore`.

RESTORE_HELP = """Restart terminals that a reboot or a killed supervisor ended.

    treadle restore ID... [--choose | --fresh] [--json]
    treadle restore --all [--choose] [--json]

`treadle ls --lost` lists them. Each restarts in its directory with its settings; Claude Code, Codex, Gemini, opencode,
Qwen and Copilot continue their last conversation there. If several terminals of one agent shared a directory, you
choose the conversation. A prompt from the command line is not sent again. Values of --env are not stored; they are read
from the environment of this command.

  --all      every lost agent; other programs restart only by id
  --choose   choose the conversation in the agent
  --fresh    start a new conversation
"""


@small(RESTORE_HELP, WHERE, "--all --choose --fresh --json", words="terminals")
def restore_command(given: Arguments) -> int:
    if bool(given.rest) == ("--all" in given.flags):
        raise UsageError("expected ids, or --all")
    if "--fresh" in given.flags and given.flags & {"--all", "--choose"}:
        raise UsageError("--fresh needs ids, and cannot be combined with --choose")
    from treadle.terminal import restore
    from treadle.terminal.detectors import by_command

    found = {each.place.id: each for each in restore.lost(directory(given))}
    if missing := [name for name in given.rest if name not in found]:
        raise NotFound(f"no lost terminal: {', '.join(missing)}", hint="`treadle ls --lost` lists them")
    chosen = [each for name, each in found.items() if name in given.rest or not given.rest]
    unclear = restore.ambiguous(list(found.values()))
    done: list[dict[str, object]] = []
    for each in chosen:
        if not given.rest and not by_command(each.settings.command):
            why = "not an agent: it is started again only by name"
            done.append({"id": each.place.id, "restored": False, "note": why})
            continue
        how = restore.CHOOSE if "--choose" in given.flags or each.place.id in unclear else restore.LAST
        done.append(_restore(each, restore.FRESH if "--fresh" in given.flags else how))
    if "--json" in given.flags:
        show(done)
    elif not done:
        sys.stdout.write("No terminal was lost\n")
    else:
        for row in done:
            sys.stdout.write(f"{row['id']}: {'' if row['restored'] else 'not restored: '}{row['note']}\n")
    failed = [row for row in done if not row["restored"] and (given.rest or row.get("command"))]
    return 1 if failed else 0


def _restore(lost: LostTerminal, how: str) -> dict[str, object]:
    from treadle.terminal.launch import launch

    row: dict[str, object] = {"id": lost.place.id, "restored": False, "command": list(lost.settings.command)}
    try:
        settings, note = lost.prepared(how, dict(os.environ))
        launch(settings)
    except TreadleError as error:
        return row | {"note": error.message + (f" ({error.hint})" if error.hint else "")}
    return row | {"restored": True, "note": note, "command": list(settings.command)}


# `treadle attach`.

ATTACH_HELP = """Join a terminal: see its screen and type into it.

    treadle attach [ID] [--read-only] [--bar]

ID defaults to the only running terminal; with several, use `treadle wall`. Ctrl-\\ detaches (detach_key in the
settings); the program continues. When the program ends, attach exits with its exit code. Ctrl-] (prefix_key) opens the
wall with this terminal in front, to reach the other terminals and the history.

  --read-only      only watch: no typing, no resizing
  --bar            show id, agent and state on the last line (always: bar = true in the settings)
"""


@small(ATTACH_HELP, WHERE, "--read-only --bar", words="terminals")
def attach_command(given: Arguments) -> int:
    if len(given.rest) > 1:
        raise UsageError("expected one id")
    settings = _configured(given)
    where = place(given, given.rest[0]) if given.rest else _only(settings)
    if where is None:
        return _wall(settings, "")
    return _join(where, settings, "--bar" in given.flags, "--read-only" in given.flags)


def _configured(given: Arguments) -> TerminalSettings:
    """The settings of who looks: keys, bar, and where the terminals are."""
    from treadle.terminal import config
    from treadle.terminal.settings import TerminalSettings

    settings = TerminalSettings()
    config.load(settings, given.get("--config"))
    settings.directory = directory(given)
    return settings


def _join(where: Place, settings: TerminalSettings, bar: bool, read_only: bool = False) -> int:
    """Attach to it, and show the wall if the person wants to see more."""
    from treadle.terminal.viewers.attach import attach

    settings.bar = settings.bar or bar
    code = attach(where, settings, read_only)
    if code is None:
        settings.directory = where.directory
        return _wall(settings, where.id)
    return code


def _only(settings: TerminalSettings) -> Place | None:
    """The only terminal that runs; None if there are several and a person can choose."""
    from treadle.terminal.listing import rows
    from treadle.terminal.places import Place

    living = [row["id"] for row in rows(settings.directory) if row["alive"]]
    if not living:
        raise NotFound("No active sessions", hint="`treadle run -- COMMAND` starts one")
    if len(living) > 1 and not sys.stdin.isatty():
        raise UsageError(f"which one? {', '.join(living)}")
    return Place(settings.directory, living[0]) if len(living) == 1 else None


# `treadle wall`.

WALL_HELP = """Watch several terminals in one view, and type into any. The one that needs an answer is in front.

    treadle wall

The terminal that has waited longest for a person is in front; the others are beside it with their state and the command
they ask for. The programs keep their sizes and do not notice.

  arrows, Tab   bring another to the front         n      next terminal that waits for a person
  a             answer the one in front: the next key goes only to the dialog that you see
  i             type into the one in front;      Enter  open it full screen, like `treadle attach`;
                Ctrl-\\ ends that                        Ctrl-\\ or Ctrl-] comes back
  [  /          show its history in colour, and search it. In the history, v selects lines, y copies them to the
                clipboard (OSC 52), q returns
  c             start a command in a new terminal
  2             show two terminals side by side; Tab switches between them; 2 again: all
  Esc           show the one that asks         q      exit

Mouse: click brings a terminal to the front, the wheel scrolls its history, dragging there copies.
"""


@small(WALL_HELP, WHERE)
def wall_command(given: Arguments) -> int:
    given.exactly(0, "no arguments")
    return _wall(_configured(given), "")


def _wall(settings: TerminalSettings, chosen: str) -> int:
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "dumb") == "dumb":
        raise ConfigError("the wall needs a terminal", hint="`treadle ls --watch` lists them without one")
    from treadle.io.process.loop import run_async
    from treadle.terminal.places import find
    from treadle.terminal.viewers.attach import attach, raw_terminal
    from treadle.terminal.viewers.screen import Screen
    from treadle.terminal.viewers.wall import NEW

    with Screen(2, 2):
        pass  # says what is missing while the person can read it
    settings.bar, words = True, ""
    while True:
        with raw_terminal() as signals:
            what, chosen = run_async(_show(settings, signals, chosen, words))
        words = ""
        if not what:
            return 0
        try:
            if what == NEW:
                chosen = _started(settings.directory, chosen)
            else:
                attach(find(settings.directory, chosen), settings)
        except NotFound:
            pass  # it has ended meanwhile
        except TreadleError as error:
            chosen, words = "", error.message
        sys.stdout.flush()


async def _show(settings: TerminalSettings, signals: int, chosen: str, words: str) -> tuple[str, str]:
    from treadle.terminal.viewers.panel import Panel
    from treadle.terminal.viewers.wall import Wall

    with Panel(signals) as panel:
        return await Wall(settings.directory, panel, settings.detach_key, chosen, words).run()


def _started(where: str, command: str) -> str:
    """Start what the person has typed in a terminal of its own, with the size of this one. Returns its id."""
    import shlex

    from treadle.terminal import config
    from treadle.terminal.launch import launch
    from treadle.terminal.settings import TerminalSettings

    settings = TerminalSettings()
    config.load(settings)
    settings.directory = where
    settings.cols, settings.rows = os.get_terminal_size(0)
    try:
        settings.command = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"{command}: {error}") from None
    return launch(settings).id


# `treadle replay`.

REPLAY_HELP = """Rerun a recorded agent run.

    treadle replay [RUN] [--in-place] [--json]

RUN was recorded with `treadle -p --agent NAME --record PROMPT`; without RUN, the recordings are listed. The agent runs
again in the same directory and gets its model responses from the recording, at no cost. The directory must be at the
same commit without changes, unless --in-place is given. If the agent's requests differ, the first differences are shown
and the exit code is 1. Recordings are stored until `treadle gc recordings:RUN` removes them.
"""


@small(REPLAY_HELP, "", "--in-place --json")
def replay_command(given: Arguments) -> int:
    from treadle.cli.agents import replay

    run = given.exactly(1, "one run")[0] if given.rest else ""
    return replay(run, in_place="--in-place" in given.flags, as_json="--json" in given.flags)


# `treadle share`.

SHARE_HELP = """Create a read-only link to one terminal for a browser. It expires.

    treadle share ID [--for 1h] [--json]
    treadle share --list [--json]
    treadle share --revoke SHARE

The link shows the screen without input. It is valid until it expires (at most 7 days), is revoked, or the program ends.
It needs a running `treadle serve`; for other machines, start that with --host and TLS.

  --for TIME      validity: 90s, 5m, 2h30m, 1d (default: 1h)
  --list          list the valid links
  --revoke SHARE  revoke a link and disconnect its viewers
"""


@small(SHARE_HELP, "--for --revoke", "--list --json", words="terminals")
def share_command(given: Arguments) -> int:
    from treadle.serve.tokens import SHARE_MAX, SHARE_SECONDS, Tokens

    tokens = Tokens()
    if share := given.get("--revoke"):
        gone = tokens.unshare(share)
        sys.stdout.write(f"{gone.terminal} is no longer shared by {gone.id}\n")
        return 0
    if "--list" in given.flags:
        return _list(tokens.shares(), "--json" in given.flags)
    if len(given.rest) != 1:
        raise UsageError("expected one id")
    seconds = duration(given.values["--for"]) if "--for" in given.values else SHARE_SECONDS
    if seconds > SHARE_MAX:
        raise ConfigError("a link to a terminal works for at most 7 days", hint="make a new one then")
    return _make(given.rest[0], seconds, "--json" in given.flags)


def _make(name: str, seconds: float, as_json: bool) -> int:
    from treadle.serve import background
    from treadle.serve.tokens import SHARE_PAGE, Tokens
    from treadle.terminal.client import Client
    from treadle.terminal.places import default_directory, find

    server = background.find()
    if server is None:
        raise NotFound("no server is running", hint="`treadle serve` starts one")
    place = find(server.terminals or default_directory(), name)
    with Client(place.sock) as client:
        started = str(client.detail()["started"])
    made, code = Tokens().share(place.id, started, seconds)
    url = f"{server.address}{SHARE_PAGE}#{code}"
    if as_json:
        show({"id": made.id, "url": url, "expires": made.expires})
    else:
        sys.stdout.write(f"{url}\n")
    return 0


def _list(found: tuple[object, ...], as_json: bool) -> int:

    from treadle.cli.terminal.status import span

    rows = [{key: getattr(each, key) for key in ("id", "terminal", "created", "expires")} for each in found]
    if as_json:
        show(rows)
        return 0
    if not rows:
        sys.stdout.write("No terminal is shared\n")
    for row in rows:
        left = span(int((row["expires"] - time.time()) * 1000))
        sys.stdout.write(f"{row['id']}  {row['terminal']}  {left} left\n")
    return 0

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

TEXT = {
    "--id": "id",
    "--workdir": "workdir",
    "--classifier": "classifier",
    "--session-env-var": "session_env_var",
    "--log-file": "log_file",
    "--log-level": "log_level",
    "--notify": "notify",
    "--resize": "resize_policy",
    "--term": "term",
}
NUMBERS = {
    "--cols": "cols",
    "--rows": "rows",
    "--scrollback-bytes": "scrollback_bytes",
    "--idle-threshold-ms": "idle_threshold_ms",
    "--debounce-ms": "debounce_ms",
}
OPTIONS = " ".join([*TEXT, *NUMBERS, "--linger --kill-process-group", WHERE])


def attaches(arguments: list[str]) -> bool:
    """Whether the command attaches to this terminal, rather than only starting something in the background."""
    try:
        return "--detach" not in run_command.read(arguments).flags
    except UsageError:
        return False  # the error is reported without a terminal


RUN_HELP = """Run a program in a terminal that outlives this one.

    treadle run [OPTIONS] [--] COMMAND [ARGUMENT...]

Starts it in the background and attaches to it; Ctrl-\\ detaches, and it goes on.

  --id ID               its name; the program's name when not given
  --detach              do not attach: print the id when its socket answers. So too where there is no terminal
  --foreground          stay here as its supervisor, for systemd; with --linger 0 end with it
  --workdir DIR         where it runs (here)
  --worktree            it works in a directory of its own, written from the commit that is checked out here, with its
                        own .git: `treadle diff ID` shows what it changed there, `treadle merge ID` brings it over
  --cols N --rows N     its size (220 x 50, or this terminal's when attaching)
  --env NAME=VALUE      add to its environment; may be repeated
  --term NAME           its TERM (as here, or xterm-256color)
  --classifier NAME     how its state is guessed: simple, claude or none (simple)
  --idle-threshold-ms N silence after which it counts as idle (3000)
  --debounce-ms N       how long a new state must last, for claude (200)
  --scrollback-bytes N  how much output a new client is shown (65536)
  --resize POLICY       whose size counts: latest, smallest, leader or fixed (latest)
  --notify COMMAND      run this in a shell when it starts to wait for a person, with TREADLE_ID, TREADLE_STATE,
                        TREADLE_MESSAGE and TREADLE_DIR set
  --linger SECONDS      how long to answer after it has ended (3)
  --own-pids            it and all that it starts have process ids of their own (a PID namespace, made by bwrap), so
                        that the kernel ends them even when all our processes are killed at once
  --kill-process-group=BOOL
                        false: signal only the program itself, and leave what it leaves behind (true)
  --session-env-var NAME
                        the variable that tells it its id (HEIMDALL_SESSION_ID)
  --log-file FILE, --log-level LEVEL
                        where the supervisor's own log goes, and from which level on (ID.log, info)
  --socket-dir DIR, --config FILE
                        where terminals live; a configuration file to use
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
        raise UsageError("--worktree starts it in the background, so that its work can be brought over")
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
    for option, name in TEXT.items():
        if option in given.values:
            setattr(settings, name, given.values[option])
    for option, name in NUMBERS.items():
        if option in given.values:
            if not given.values[option].isdigit():
                raise UsageError(f"{option} must be a whole number, not {given.values[option]!r}")
            setattr(settings, name, int(given.values[option]))
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
            raise UsageError(f"--env wants NAME=VALUE, not {entry!r}")
        settings.env.append((name, value))
    settings.command = given.rest
    return settings


# `treadle restore`.

RESTORE_HELP = """Start terminals again that the machine or a killed supervisor has ended.

    treadle restore ID... [--choose | --fresh] [--json]
    treadle restore --all [--choose] [--json]

`treadle ls --lost` lists them. Each is started as before, in its directory and with its settings; Claude Code, Codex,
Gemini, opencode, Qwen and Copilot continue their last conversation there. Where several of one agent worked in one
directory, you choose the conversation in it. A prompt that was on the command line is not sent again. The values that
--env was given are not stored: they are taken from the environment of this command.

  --all      every lost agent; other programs are started again only by name
  --choose   let the agent offer its conversations
  --fresh    the same command again, without a conversation
"""


@small(RESTORE_HELP, WHERE, "--all --choose --fresh --json", words="terminals")
def restore_command(given: Arguments) -> int:
    if bool(given.rest) == ("--all" in given.flags):
        raise UsageError("expected ids, or --all")
    if "--fresh" in given.flags and given.flags & {"--all", "--choose"}:
        raise UsageError("--fresh is for ids, and without --choose")
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

ATTACH_HELP = """Join a terminal: see what its program shows and type into it.

    treadle attach [ID] [--read-only] [--bar]

Without an ID it is the one that runs; when several do, `treadle wall` shows them. Ctrl-\\ detaches (detach_key in the
settings); the program goes on. When the program ends, so does this, with its exit code. Ctrl-] (prefix_key) shows the
wall with this terminal in front: there are the other terminals, and what has scrolled away.

  --read-only      only watch: type nothing and do not change its size
  --bar            show its id, agent and state on the last line (bar = true in the settings: always)
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
    from treadle.terminal.settings import AttachOptions
    from treadle.terminal.viewers.attach import attach

    keys = {"detach_key": settings.detach_key, "prefix_key": settings.prefix_key}
    code = attach(where, AttachOptions(read_only=read_only, bar=bar or settings.bar, **keys))
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

WALL_HELP = """Watch several terminals in one view, the one that asks in front, and type into any.

    treadle wall

The terminal that has waited for a person the longest is in front; the others are beside it, each with its state and,
if it asks, the command that it asks for. The programs keep their sizes and are not notified.

  arrows, Tab   put another one in front         n      the next one that waits for a person
  a             answer the one in front: the next key goes into the dialog that you see, and into no other
  i             type into the one in front;      Enter  join it with the whole screen, as `treadle attach` does;
                Ctrl-\\ ends that                        Ctrl-\\ or Ctrl-] comes back
  [  /          look at what has scrolled away in it, in its colours, and search it. There, v selects lines and y copies
                them to your terminal's clipboard (OSC 52); q comes back
  c             start a command in a new terminal
  2             only the one in front and the next, with the same room; Tab changes between them; 2 again: all
  Esc           whichever asks is in front       q      leave

With the mouse: a click puts a terminal in front, the wheel looks at what has scrolled away, and dragging copies there.
"""


@small(WALL_HELP, WHERE)
def wall_command(given: Arguments) -> int:
    given.exactly(0, "no arguments")
    return _wall(_configured(given), "")


def _wall(settings: TerminalSettings, chosen: str) -> int:
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "dumb") == "dumb":
        raise ConfigError("a wall needs a terminal to draw on", hint="`treadle ls --watch` lists them without one")
    from treadle.io.process.loop import run_async
    from treadle.terminal.places import find
    from treadle.terminal.settings import AttachOptions
    from treadle.terminal.viewers.attach import attach, raw_terminal
    from treadle.terminal.viewers.screen import Screen
    from treadle.terminal.viewers.wall import NEW

    with Screen(2, 2):
        pass  # says what is missing while the person can read it
    options = AttachOptions(detach_key=settings.detach_key, prefix_key=settings.prefix_key, bar=True)
    words = ""
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
                attach(find(settings.directory, chosen), options)
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

REPLAY_HELP = """Repeat a recorded run of an agent.

    treadle replay [RUN] [--in-place] [--json]

A RUN was recorded by `treadle -p --agent NAME --record PROMPT`; without one, they are listed. The same agent does its
work again in the same directory, and its model calls are answered from the record: none is paid for. The directory
must be as it was when the run began (the same commit, nothing changed), or --in-place is given. The first places where
the agent asks something else than it did are named; the exit code is then 1. Recordings stay until
`treadle gc recordings:RUN` removes them.
"""


@small(REPLAY_HELP, "", "--in-place --json")
def replay_command(given: Arguments) -> int:
    from treadle.cli.agents import replay

    run = given.exactly(1, "one run")[0] if given.rest else ""
    return replay(run, in_place="--in-place" in given.flags, as_json="--json" in given.flags)


# `treadle share`.

SHARE_HELP = """Make a link with which others watch one terminal in a browser, and nothing else, until it expires.

    treadle share ID [--for 1h] [--json]
    treadle share --list [--json]
    treadle share --revoke SHARE

Who has the link sees the screen and can type nothing. It works until it expires (at most 7 days), the program ends, or
it is taken back. The page must be served: `treadle serve`, and for others than this machine with --host and TLS.

  --for TIME      how long it works: 90s, 5m, 2h30m, 1d (1h)
  --list          the links that have not expired
  --revoke SHARE  take one back; who watches with it sees nothing more
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
        raise NotFound("no page is served here", hint="`treadle serve` serves it")
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

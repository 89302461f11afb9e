"""`treadle run`."""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import WHERE, warn
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.terminal.settings import TerminalSettings

TEXT = {
    "--id": "id",
    "--workdir": "workdir",
    "--classifier": "classifier",
    "--session-env-var": "session_env_var",
    "--log-file": "log_file",
    "--log-level": "log_level",
    "--record": "record",
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
        return "--detach" not in _parsed(arguments).flags
    except UsageError:
        return False  # the error is reported without a terminal


def _parsed(arguments: list[str]) -> Arguments:
    return Arguments(arguments, OPTIONS, "--detach --foreground --bar --worktree --own-pids", many="--env", stop=True)


RUN_HELP = """Run a program in a terminal that outlives this one.

    treadle run [OPTIONS] [--] COMMAND [ARGUMENT...]

Starts it in the background and attaches to it; Ctrl-\\ detaches, and it goes on.

  --id ID               its name; the program's name when not given
  --detach              do not attach: print the id when its socket answers
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
  --record FILE         record what is shown as an asciicast
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


def run_command(arguments: list[str]) -> int:
    given = _parsed(arguments)
    attaching = not given.flags & {"--detach", "--foreground"}
    if attaching and not os.isatty(0):
        raise UsageError("there is no terminal to attach here: say --detach or --foreground")
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
    from treadle.terminal.attach import attach
    from treadle.terminal.settings import AttachOptions

    bar = "--bar" in given.flags or settings.bar
    return attach(place, AttachOptions(detach_key=settings.detach_key, prefix_key=settings.prefix_key, bar=bar))


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
        from treadle.terminal.own_pids import wrapper

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

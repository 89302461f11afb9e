"""The settings of a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from treadle.errors import ConfigError

CLASSIFIERS = ("simple", "claude", "none")
POLICIES = ("latest", "smallest", "fixed", "leader")
TERM = "xterm-256color"

FOREIGN = (
    # These describe the terminal and the service in which we were started; our child is in another one.
    *("COLUMNS", "LINES", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WINDOWID", "WINDOWPATH"),
    *("TMUX", "TMUX_PANE", "STY", "WINDOW", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ZELLIJ", "ZELLIJ_SESSION_NAME"),
    *("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "MANAGERPID"),
)
STATE_FILE_VARIABLE = "TREADLE_STATE_FILE"


class TerminalSettings:
    """Every setting with its default, named as in the configuration file where it has them."""

    def __init__(self) -> None:
        self.id = ""
        self.command: Sequence[str] = ()
        self.directory = ""
        self.workdir = "."
        self.cols = 220
        self.rows = 50
        self.classifier = "simple"
        self.idle_threshold_ms = 3000
        self.debounce_ms = 200
        self.scrollback_bytes = 64 * 1024
        self.session_env_var = "HEIMDALL_SESSION_ID"
        self.kill_process_group = True
        self.wrapper: Sequence[str] = ()
        """What the command is started by, if not by itself."""
        self.env: list[tuple[str, str]] = []
        self.term = ""
        self.linger = 3.0
        self.resize_policy = "latest"
        self.notify = ""
        self.state_file = ""
        self.log_file = ""
        self.log_level = "info"
        self.detach_key = 0x1C
        self.prefix_key = 0x1D
        self.bar = False
        self.clients_max = 256

    def check(self) -> TerminalSettings:
        """Returns self if every value is valid."""
        if not self.command:
            raise ConfigError("there is no command to run", hint="treadle run -- COMMAND ARGUMENT...")
        if any("\0" in part for part in self.command):
            raise ConfigError("the command contains a NUL byte, which no program can be given")
        for name, least, most in (
            ("cols", 0, 0xFFFF),
            ("rows", 0, 0xFFFF),
            ("scrollback_bytes", 0, 1 << 30),
            ("idle_threshold_ms", 1, 1 << 31),
            ("debounce_ms", 0, 1 << 31),
            ("detach_key", 0, 255),
            ("prefix_key", 0, 31),
            ("clients_max", 1, 1 << 16),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number from {least} to {most}")
        for name, choices in (("classifier", CLASSIFIERS), ("resize_policy", POLICIES)):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(choices)}")
        workdir = os.path.realpath(os.path.expanduser(self.workdir))
        if not os.path.isdir(workdir):
            raise ConfigError(f"the working directory {workdir} does not exist")
        self.workdir = workdir
        return self


def child_environment(settings: TerminalSettings, ours: Mapping[str, str]) -> dict[str, str]:
    """Our own environment, without what describes the terminal we are in, and with what describes the new one."""
    env = {name: value for name, value in ours.items() if name not in FOREIGN}
    if settings.term or env.get("TERM", "dumb") in ("", "dumb", "unknown"):
        env["TERM"] = settings.term or TERM
    env[settings.session_env_var] = settings.id
    env[STATE_FILE_VARIABLE] = settings.state_file
    env.update(settings.env)
    return env

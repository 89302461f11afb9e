"""Run a shell command in its own process tree, which is gone when the tool returns.

When the shell exits, what it left running is stopped, and the result says so; servers belong in `background`. Nothing
can hang the tool: stdin is /dev/null, time is limited, and a daemon that keeps the output pipe open is ended too.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from treadle.agent.toolbox import Output
from treadle.agent.tools.base import SHELL, HostQuestions, Resolve, Tool, ToolContext
from treadle.errors import LocalError, ToolError
from treadle.events import CommandRun, ToolKind, ToolOutput, Warned
from treadle.io.files import create_new, read_at_most
from treadle.policy.network import offline, refusal
from treadle.policy.rules import is_under
from treadle.session import Access, Confinement

if TYPE_CHECKING:
    from treadle.io.process.child import Child


# What to allow when git, or another program, cannot reach another machine from inside a sandbox, or sign in there.

_SSH = ("Permission denied (publickey", "Host key verification failed", "Could not open a connection to your authen")
_HTTPS = ("could not read Username for", "could not read Password for", "Authentication failed for", "gh auth login")

_NOT_REACHED = ("ssh: connect to host", "ssh: Could not resolve hostname")


def unreachable_by_ssh(output: str) -> str:
    """Why ssh reached nothing where commands have no network, or that of some hosts; empty when it is not about ssh."""
    if not any(sign in output for sign in _NOT_REACHED):
        return ""
    return (
        "ssh reaches no machine from here, also none of a list of hosts, because it does not use a proxy. A person can"
        " allow everything with --network on, or give git an https address, for which --network HOST is enough"
    )


def refused_sign_in(output: str) -> str:
    """What a person can allow, from what the command printed; empty when it was not about signing in."""
    if any(sign in output for sign in _SSH):
        missing, allow = "ssh keys and the ssh agent", 'sockets = ["$SSH_AUTH_SOCK"] and read = ["~/.ssh/known_hosts"]'
    elif any(sign in output for sign in _HTTPS):
        missing, allow = "saved passwords and tokens", 'read = ["~/.git-credentials"] or read = ["~/.config/gh"]'
    else:
        return ""
    return (
        f"it could not sign in: without the person's leave, their {missing} are not in the sandbox. They can allow it"
        f" under [sandbox] in the settings with {allow}, or run this command themselves"
    )


GRACE = 2.0
"""Seconds between asking remaining processes to end and killing them."""
LINGER = 0.3
"""Seconds after the shell's exit in which others may finish writing, as in `cmd > >(tee log)`."""
MAX_TIMEOUT = 3600.0
WALLS = ("Read-only file system", "Device or resource busy", "Permission denied", "EROFS")
"""What programs say when a sandbox stops them."""
NETWORK_NOTED = "network_noted"
SIGN_IN_NOTED = "sign_in_noted"
LIMIT_NOTED = "limit_noted"
SHOWN = 5


class BashArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command, as for bash -c.")]
    timeout: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_TIMEOUT * 1000)] | None,
        Meta(description="Seconds after which it is stopped; 120 when left out. Above 3600 it means milliseconds."),
    ] = None
    background: Annotated[bool, Meta(description="Let it run on, for servers and watchers; returns at once.")] = False
    outside: Annotated[
        str,
        Meta(
            description="Commands run in a sandbox: outside of the working directory nothing can be written. When one "
            "cannot work in there, say here why, and a person is asked to let it run outside."
        ),
    ] = ""


class Bash:
    name = "bash"
    description = (
        "Run a shell command and return its output (stdout and stderr together) and exit code. Each call starts in "
        "the directory where the last one ended, with what that exported; outside of the workspace this does not last, "
        "and other tools stay in the working directory. There is no input. When the shell exits, processes that it "
        "left running are stopped; to keep one running use background."
    )
    kind: ToolKind = "execute"
    Args = BashArgs

    def access(self, args: BashArgs, resolve: Resolve) -> Access:
        outside, state = args.outside.strip(), shell_state(resolve)
        command, there = state.judged(args.command, resolve, outside=bool(outside)), state.directory
        return Access(tool=self.name, kind=self.kind, command=command, args=args, outside=outside, directory=there)

    async def run(self, args: BashArgs, context: ToolContext) -> str:
        if not args.command.strip() or "\0" in args.command:
            raise ToolError("the command is empty, or contains a NUL character")
        if outside := bool(args.outside.strip()):
            context.leave()
        confinement = None if outside else context.confinement()
        if args.background:
            return await _in_background(args.command, context, confinement, outside)
        asked = args.timeout or 0.0
        if asked > MAX_TIMEOUT:  # models are trained on tools that count in milliseconds
            asked /= 1000
        return await ShellRun(args.command, asked or context.timeout, context, confinement, outside).result()


BASH: Tool[BashArgs] = Bash()


async def _in_background(command: str, context: ToolContext, confinement: Confinement | None, outside: bool) -> str:
    state = shell_state(context.resolve).known(outside=outside)
    env = context.env
    if state.variables:
        env, confinement = _ShellFile(state, confinement, env, report=False).start(env, confinement)
    try:
        task = await context.background.start_process(
            command, cwd=state.directory or str(context.cwd), env=env, confinement=confinement, call=context.call
        )
    except LocalError as error:
        raise ToolError(error.message, hint=error.hint) from error
    where = f"; its output goes to {task.log_path}" if task.log_path else ""
    return f"Started in the background as task {task.id} (process {task.pid}){where}"


# What one command leaves for the next: the directory in which its shell ended, and what that exported.
#
# The next command is judged with both written before it, as if the model had done that, so no guard need know of them.
# The shell reports at its end, because of a file that bash reads first (BASH_ENV). What is in the report is the model's
# word: a directory counts if it is one of the workspace, by its real path, and a variable if the list lets it pass.

_MAY_LAST = re.compile(
    r"\b(cd|pushd|popd|export|declare|typeset|unset|source|eval|set)\b|(^|[\s;&|({])(\.\s|[A-Za-z_]\w*\+?=)"
)
_IGNORED = {"_", "SHLVL", "PWD", "OLDPWD", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"}
_REPORT_CAP = 1 << 20
_ENV = "/usr/bin/env -0"
_END = f"{{ builtin printf '\\0'; builtin pwd -P; builtin printf '\\0'; {_ENV}; }} 2>/dev/null >>"


class ShellState(msgspec.Struct, frozen=True, kw_only=True):
    directory: str = ""
    """By its real path; empty: the working directory."""
    variables: dict[str, str | None] = {}
    """None: it was unset."""
    lost: str = ""
    """The directory that was kept, and is not there any more."""

    def standing(self) -> ShellState:
        """The same, unless its directory is gone by now, or a link was put in its place."""
        place = self.directory
        if not place or os.path.realpath(place) == place and os.access(place, os.X_OK) and os.path.isdir(place):
            return self
        return msgspec.structs.replace(self, directory="", lost=place)

    def known(self, *, outside: bool) -> ShellState:
        """What of it a command finds: outside of the sandbox no variable from within."""
        return msgspec.structs.replace(self, variables={}) if outside else self

    def judged(self, command: str, resolve: Resolve, *, outside: bool) -> str:
        """The command with what it finds, in words of the shell."""
        if not self.directory and not self.variables:
            return command
        from shlex import quote

        from treadle.policy.shell import changes_nothing

        found = self.known(outside=outside).variables
        deciding = {name: value for name, value in found.items() if not changes_nothing(name)}
        inside = os.path.relpath(self.directory, resolve(".")) if self.directory else ""
        place = self.directory if inside.startswith(("..", "-", "~")) else inside
        return " && ".join(filter(None, [*_settings(deciding), place and f"cd {quote(place)}", command]))


START = ShellState()


def shell_state(resolve: Resolve) -> ShellState:
    """What a call finds: it runs where it was judged, whatever happened in between."""
    state: ShellState | None = getattr(resolve, "shell", None)
    return state or START


def _settings(variables: dict[str, str | None]) -> list[str]:
    from shlex import quote

    given = " ".join(f"{name}={quote(value)}" for name, value in variables.items() if value is not None)
    unset = " ".join(name for name, value in variables.items() if value is None)
    return [*([f"export {given}"] if given else []), *([f"unset {unset}"] if unset else [])]


class _ShellFile:
    """What bash reads first: the variables, which no program outside of the sandbox may see, because some decide what
    a program does; and how to report at the end, into this file."""

    def __init__(
        self, state: ShellState, confinement: Confinement | None, env: dict[str, str], *, report: bool
    ) -> None:
        from shlex import quote
        from tempfile import gettempdir

        from treadle.io.sandbox import methods

        temp, name = confinement.temp if confinement is not None else None, f".shell-{os.urandom(8).hex()}"
        self.place = os.path.join(temp or gettempdir(), name)
        private = temp is not None and methods.available().method == "bubblewrap"
        self._inside = f"/tmp/{name}" if private else self.place
        theirs = env.get("BASH_ENV") if confinement is None else None
        lines = ["unset BASH_ENV", *([f"export BASH_ENV={quote(theirs)}; . {quote(theirs)}"] if theirs else [])]
        inside = quote(self._inside)
        ending = f"{_ENV} 2>/dev/null >|{inside}; builtin trap {quote(_END + inside)} EXIT"
        lines += [*_settings(state.variables), ending if report else f"/bin/rm -f {inside}"]
        try:
            with create_new(self.place) as file:  # a program in the sandbox may write beside it: no link is followed
                file.write("\n".join([*lines, ""]).encode())
        except OSError as error:
            raise ToolError(f"the state of the last command cannot be restored: {error}") from error

    def start(self, env: dict[str, str], confinement: Confinement | None) -> tuple[dict[str, str], Confinement | None]:
        if confinement is not None and confinement.variables is not None:
            confinement = msgspec.structs.replace(confinement, variables=(*confinement.variables, "BASH_ENV"))
        return {**env, "BASH_ENV": self._inside}, confinement

    def read(self) -> tuple[str, dict[str, str | None]] | None:
        """Where it ended, and which variables it changed; None if it does not say."""
        try:
            text = os.fsdecode(read_at_most(self.place, _REPORT_CAP, follow=False))
        except OSError:
            return None
        began, found, rest = text.partition("\0\0")
        directory, _, last = rest.partition("\0")
        before, after = _variables(began), _variables(last)
        changed = {
            name: after.get(name)
            for name in sorted({*before, *after} - _IGNORED)
            if before.get(name) != after.get(name) and name.isidentifier()
        }
        return (directory.removesuffix("\n"), changed if before and after else {}) if found else None

    def close(self) -> None:
        with suppress(OSError):
            os.unlink(self.place)


def _variables(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (one.partition("=") for one in text.split("\0") if one)}


class ShellRun:
    """One command from its start to its end."""

    def __init__(
        self,
        command: str,
        timeout: float,
        context: ToolContext,
        confinement: Confinement | None = None,
        outside: bool = False,
    ) -> None:
        self.command = command
        self.confinement = confinement
        self.timeout = timeout
        self.context = context
        self.output = Output(context)
        self.notes: list[str] = []
        self.exit_code: int | None = None
        self._outside = outside
        self._state = shell_state(context.resolve)
        self._live = Live(context)
        self._hosts = HostQuestions(context.reaching)

    async def result(self) -> str:
        if self._state.lost:
            self._lost()
        known, report = self._state.known(outside=self._outside), _MAY_LAST.search(self.command) is not None
        if not report and not known.variables:
            return await self._run(self.context.env, self.confinement)
        file = _ShellFile(known, self.confinement, self.context.env, report=report)
        try:
            text = await self._run(*file.start(self.context.env, self.confinement))
            if report:
                self.notes = []
                self._keep(file.read())
                text = "\n".join([text, *self.notes])
        finally:
            file.close()
        return text

    async def _run(self, env: dict[str, str], confinement: Confinement | None) -> str:
        from shutil import which  # imported here because most sessions begin without a command

        from treadle.io.sandbox.start import start

        shell = which("bash", path=self.context.env.get("PATH")) or "/bin/sh"
        try:
            child = await start(
                confinement,
                [shell, "-c", self.command],
                env=env,
                cwd=self._state.directory or str(self.context.cwd),
                stderr="stdout",
                linger=True,
                reaching=self._hosts.reach if self.context.reaching is not None or self._listed else None,
            )
        except LocalError as error:
            raise ToolError(error.message, hint=error.hint) from error
        try:
            async with child:
                await self._follow(child)
        finally:
            self._live.close()
            self._hosts.close()
            self.context.emit(
                CommandRun(
                    command=self.command, exit_code=self.exit_code, output=self.output.text(), call=self.context.call
                )
            )
        return "\n".join([self.output.text().removesuffix("\n") or "[no output]", *self.notes])

    def _lost(self) -> None:
        self.context.state[SHELL] = msgspec.structs.replace(self._state, lost="")
        self.notes.append(f"[it ran in {self.context.cwd}: {self._state.lost}, where the last one ended, is gone]")

    def _keep(self, ended: tuple[str, dict[str, str | None]] | None) -> None:
        """Keep what the next command is to find, and say what it will not."""
        if ended is None:
            return
        (directory, changed), start = ended, os.path.realpath(self.context.cwd)
        if not directory.isprintable() or not any(is_under(directory, one) for one in self.context.inside or (start,)):
            self.notes.append(f"[the next command starts in {start} again: this one ended outside of the workspace]")
            directory = start
        elif directory not in (start, self._state.directory):
            self.notes.append(f"[the next command starts in {directory}]")
        changed = {} if self._outside else changed
        values = {name: value for name, value in changed.items() if value is not None}
        passed = self.context.lasting(values, self.confinement is not None)
        if left := [name for name, value in values.items() if name not in passed or not value.isprintable()]:
            self.notes.append(f"[for this command only, because the list of variables lacks them: {', '.join(left)}]")
        variables = {**self._state.variables, **{name: changed[name] for name in changed if name not in left}}
        variables = {name: value for name, value in variables.items() if value != self.context.env.get(name)}
        state = ShellState(directory="" if directory == start else directory, variables=variables)
        self.context.state[SHELL] = state

    async def _follow(self, child: Child) -> None:
        reading = asyncio.create_task(self._read(child))
        try:
            async with asyncio.timeout(self.timeout):
                self.exit_code = await child.wait()
        except TimeoutError:
            report = await child.stop(GRACE)
            killed = f", {len(report.killed)} of them by force" if report.killed else ""
            self.notes.append(
                f"[timed out after {self.timeout:g} s: the command and all it had started were stopped"
                f" ({len(report.ended)} processes{killed})]"
            )
        except LocalError as error:
            self.notes.append(f"[{error}]")
        except asyncio.CancelledError:
            reading.cancel()
            await child.stop(self.context.grace)
            raise
        else:
            await asyncio.wait([reading], timeout=LINGER)
            await self._stop_rest(child)
            self._tell_exit(child.exceeded(self.output.text() if self.exit_code else ""))
        finally:
            # No one is left to write; a descriptor that was passed out of the tree must not keep us waiting.
            await asyncio.wait([reading], timeout=LINGER)
            reading.cancel()

    async def _read(self, child: Child) -> None:
        while data := await child.stdio.read():
            self.output.add(data)
            self._live.add(data)

    async def _stop_rest(self, child: Child) -> None:
        left = [f"{process.name} ({process.pid})" for process in child.tree.processes() if process.state != "Z"]
        await child.stop(GRACE)
        if left:
            listed = ", ".join(left[:10]) + (f" and {len(left) - 10} more" if len(left) > 10 else "")
            self.notes.append(f"[stopped what the command left running: {listed}; use background to keep it]")

    def _tell_exit(self, exceeded: str) -> None:
        if self.exit_code is not None and self.exit_code < 0:
            self.notes.append(f"[ended by signal {_signal_name(-self.exit_code)}]")
        elif self.exit_code:
            self.notes.append(f"[exit code {self.exit_code}]")
        if exceeded:
            self._tell(f"{exceeded} (limits of [sandbox] in the settings)", LIMIT_NOTED, "sandbox")
        self._tell_network()
        self._tell_sandbox()
        if self.confinement is not None:
            self.notes += _missing(self.command, self.output.text() if self.exit_code else "", self)

    @property
    def _listed(self) -> bool:
        return self.confinement is not None and self.confinement.network == "off" and bool(self.confinement.hosts)

    def _tell_network(self) -> None:
        """Which hosts were not reached, or that there is no network: programs report it in many ways."""
        if self.confinement is None or self.confinement.network != "off":
            return
        output, note = self.output.text() if self.exit_code else "", ""
        if self._hosts.refused:
            note = refusal(self.confinement.hosts, *self._hosts.refused)
        elif note := offline(output, self.confinement.hosts):
            note = unreachable_by_ssh(output) or note
        if note:
            self._tell(note, NETWORK_NOTED, "network")

    def _tell(self, note: str, kind: str, code: str) -> None:
        """Tell the agent, and the first time the person too."""
        self.notes.append(f"[{note}]")
        if not self.context.state.get(kind):
            self.context.state[kind] = True
            self.context.emit(Warned(message=note, code=code))

    def _tell_sandbox(self) -> None:
        """A command that failed because of the sandbox reports an error that does not mention it."""
        output = self.output.text()
        if self.confinement is not None and self.exit_code and (hint := refused_sign_in(output)):
            return self._tell(hint, SIGN_IN_NOTED, "git")
        if self.confinement is None or not any(sign in output for sign in WALLS):
            return
        met = [why for path, why in self.confinement.held if os.path.basename(path) in output]
        if not met and self.exit_code:
            where = ", ".join(self.confinement.write)
            self.notes.append(
                f"[it ran in a sandbox: only {where} and /tmp can be written, and not the files that git, editors and "
                "agents obey; if it must run outside, call again with `outside` saying why]"
            )
        self.notes += _held(met or [why for _, why in self.confinement.held if self.exit_code])


def _missing(command: str, output: str, run: ShellRun) -> list[str]:
    """Which variables and places of the home directory it names that the sandbox does not show, and what shows them."""
    from treadle.io.paths import at_home
    from treadle.io.sandbox.places import missing

    assert run.confinement is not None
    left = [name for name in run.context.env if name not in (run.confinement.variables or run.context.env)]
    words = {*re.findall(r"\$\{?(\w+)", command), *re.findall(r"\w+", output)}
    notes = [
        f'[{name} is not passed into the sandbox; a person can pass it on with env = ["{name}"] in the settings]'
        for name in left
        if name in words
    ]
    places = [at_home(place) for place in missing(f"{command}\n{output}", run.confinement)] if run.exit_code else []
    return notes[:SHOWN] + [
        f'[{place} is not in the sandbox; a person can show it with read = ["{place}"] under [sandbox] in the settings]'
        for place in places[:SHOWN]
    ]


def _held(by: list[str]) -> list[str]:
    more = f" and {len(by) - SHOWN} more" if len(by) > SHOWN else ""
    note = (
        f"[read-only, because others have claimed it: {'; '.join(by[:SHOWN])}{more}. Work on something else meanwhile]"
    )
    return [note] if by else []


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


class Live:
    """Output as it comes, for the one who watches: collected for a moment, and never more than `TOTAL` bytes."""

    PAUSE = 0.05
    TOTAL = 256 << 10
    PIECE = 16 << 10

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = bytearray()
        self._left = self.TOTAL
        self._gap = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        if self._left <= 0:
            return
        room = self.PIECE - len(self._held)
        self._held += data[:room]
        self._gap = self._gap or len(data) > room
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.PAUSE, self._flush)

    def _flush(self, final: bool = False) -> None:
        self._timer = None
        data = bytes(self._held[: self._left])
        self._held.clear()
        self._left -= len(data)
        text = self._decoder.decode(data, final)
        if self._left <= 0:
            text += "\n[there is more; it is not shown live]\n"
        elif self._gap:
            text += "\n[...]\n"
        self._gap = False
        if text:
            self._context.emit(ToolOutput(call=self._context.call, text=text))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._flush(final=True)

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
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from treadle.agent.toolbox import Output
from treadle.agent.tools.base import HostQuestions, Resolve, Tool, ToolContext
from treadle.errors import LocalError, ToolError
from treadle.events import CommandRun, ToolKind, ToolOutput, Warned
from treadle.policy.network import offline, refusal
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
        "Run a shell command and return its output (stdout and stderr together) and exit code. Every call starts in "
        "the working directory with a fresh shell: cd and variables do not last. There is no input. When the shell "
        "exits, processes that it left running are stopped; to keep one running use background."
    )
    kind: ToolKind = "execute"
    Args = BashArgs

    def access(self, args: BashArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, command=args.command, args=args, outside=args.outside.strip())

    async def run(self, args: BashArgs, context: ToolContext) -> str:
        if not args.command.strip() or "\0" in args.command:
            raise ToolError("the command is empty, or contains a NUL character")
        if outside := bool(args.outside.strip()):
            context.leave()
        confinement = None if outside else context.confinement()
        if args.background:
            return await _in_background(args.command, context, confinement)
        asked = args.timeout or 0.0
        if asked > MAX_TIMEOUT:  # models are trained on tools that count in milliseconds
            asked /= 1000
        return await ShellRun(args.command, asked or context.timeout, context, confinement).result()


BASH: Tool[BashArgs] = Bash()


async def _in_background(command: str, context: ToolContext, confinement: Confinement | None) -> str:
    try:
        task = await context.background.start_process(
            command, cwd=str(context.cwd), env=context.env, confinement=confinement, call=context.call
        )
    except LocalError as error:
        raise ToolError(error.message, hint=error.hint) from error
    where = f"; its output goes to {task.log_path}" if task.log_path else ""
    return f"Started in the background as task {task.id} (process {task.pid}){where}"


class ShellRun:
    """One command from its start to its end."""

    def __init__(
        self, command: str, timeout: float, context: ToolContext, confinement: Confinement | None = None
    ) -> None:
        self.command = command
        self.confinement = confinement
        self.timeout = timeout
        self.context = context
        self.output = Output(context)
        self.notes: list[str] = []
        self.exit_code: int | None = None
        self._live = Live(context)
        self._hosts = HostQuestions(context.reaching)

    async def result(self) -> str:
        from shutil import which  # imported here because most sessions begin without a command

        from treadle.io.sandbox.start import start

        shell = which("bash", path=self.context.env.get("PATH")) or "/bin/sh"
        try:
            child = await start(
                self.confinement,
                [shell, "-c", self.command],
                env=self.context.env,
                cwd=str(self.context.cwd),
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

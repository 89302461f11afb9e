"""`treadle -p PROMPT` and `exec`: run one prompt, print the answer, exit. The commands for scripts and CI."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import click
import msgspec

from treadle.agents import find_agent, takes_programs
from treadle.cli.options import OptionTable, RunOptions, opening_notes, run_options, take
from treadle.doors.oneshot.run import OneShot, not_begun
from treadle.errors import ConfigError, PeerClosed, TreadleError
from treadle.events import Retrying, Warned
from treadle.io import streams
from treadle.io.process import lifetime
from treadle.io.process.loop import hold_secrets, on_signals, run_async
from treadle.io.streams import FdStream, take_stdio
from treadle.io.tasks import start_held, unless
from treadle.session import EventReader, Session, SessionSpec
from treadle.wire.common.connection import json_line
from treadle.wire.oneshot.connection import Connection, OutputFormat

if TYPE_CHECKING:
    from treadle.doors.oneshot.hooks import HostHooks
    from treadle.doors.oneshot.hosting import Heard, SchemaCheck
    from treadle.doors.oneshot.run import Hosting
    from treadle.sandboxed.turns import TurnCheck


BROKEN_PIPE = 141
"""128 and the number of SIGPIPE, as shells report a program that was ended by it."""
Interrupt: TypeAlias = Callable[[str], Coroutine[Any, Any, None]]


NOT_USED = {
    **dict.fromkeys(["fallback-model", "betas", "thinking-display"], False),
    **dict.fromkeys(["task-budget", "debug-file"], False),
    **dict.fromkeys(["debug", "debug-to-stderr", "exclude-dynamic-system-prompt-sections"], True),
}
"""Options of Claude Code that programs driving it may give; the value says whether it is a flag."""


UNSEEN: dict[str, Any] = {"hidden": True, "expose_value": False}


def accepted_and_not_used(command: Any) -> Any:
    def say(context: click.Context, option: click.Parameter, value: Any) -> None:
        if value:
            _note(f"--{option.name} is not used here".replace("_", "-"))

    for name, flag in NOT_USED.items():
        command = click.option(f"--{name}", is_flag=flag, hidden=True, expose_value=False, callback=say)(command)
    return command


def _suggests(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None and value.lower() not in ("false", "0", "no", "off"):
        _note("--prompt-suggestions is not used here")


def _snapshot(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value == "on":
        _note("--system-prompt-snapshot is not used here: the prompt is rebuilt when a session is resumed")


ONCE = OptionTable()


class RunFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What `-p` takes beside the options of every run."""

    output_format: OutputFormat = ONCE.option(
        "text: the answer. json: one result object. stream-json: events as they come, then the result. "
        "codex-json: the lines of codex exec --json.",
        type=click.Choice(get_args(OutputFormat)),
        default="text",
        show_default=True,
    )
    input_format: str = ONCE.option(
        "stream-json: many prompts on stdin, one JSON record a line, one result each.",
        type=click.Choice(["text", "stream-json"]),
        default="text",
        show_default=True,
    )
    verbose: bool = ONCE.flag("stream-json: also system, assistant and user lines.")
    partial: bool = ONCE.flag("stream-json: also raw message events.", names="--include-partial-messages")
    json_schema: str | None = ONCE.option("The answer must fit it. It may also be the schema itself.", "FILE")
    strict_exit: bool | None = ONCE.switch(
        "130 interrupted, 3 limit, 4 denied, incomplete or not verified, 5 contradicted by the check, 124 timed out. "
        "Default: where CI is set, except with --input-format stream-json."
    )
    verify: str | None = ONCE.option("Check what was changed with this command, in place of the project's own.", "CMD")
    no_verify: bool = ONCE.flag("Do not check what was changed.")
    output_file: str | None = ONCE.option("Write there, not to stdout.", "FILE", type=click.Path(dir_okay=False))
    last_message: str | None = ONCE.option(metavar="FILE", type=click.Path(dir_okay=False))
    """Where the answer is written, too."""
    unknown_cost: float | None = ONCE.option(
        "The total_cost_usd when no price is known, in place of null.", type=float, envvar="TREADLE_UNKNOWN_COST"
    )
    replay: bool = ONCE.flag(names="--replay-user-messages")
    hook_events: bool = ONCE.flag("stream-json: also what hooks begin and end.", names="--include-hook-events")
    forward: bool = ONCE.flag("stream-json: also the words of subagents.", names="--forward-subagent-text")
    mirror: bool = ONCE.flag(names="--session-mirror")
    permission_prompt_tool: str | None = ONCE.option()
    """Who permits: stdio, or mcp__SERVER__TOOL."""

    @property
    def strict(self) -> bool:
        in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false", "no", "off")
        # The SDKs of Claude Code raise on any code but 0, also after a good result.
        return (in_ci and self.input_format != "stream-json") if self.strict_exit is None else self.strict_exit

    @property
    def unchecked(self) -> str:
        """Why nothing is checked; empty if it is."""
        if self.no_verify:
            return "--no-verify was given"
        talks = self.input_format == "stream-json" and self.verify is None
        return "prompts that come on stdin are checked only with --verify" if talks else ""


def _flags(command: Any) -> Any:
    return ONCE.add_to(RunFlags, command)


@click.command("treadle -p", epilog="Formats, fields and exit codes: treadle docs one-shot")
@click.option("-p", "--print", "flag", is_flag=True, help="Run one prompt and print the answer.")
@click.argument("prompt", required=False)
@_flags
@click.option("--permission-prompts", "asks", type=click.Choice(["host", "none"]), default="host", hidden=True)
@click.option("--prompt-suggestions", is_flag=False, flag_value="true", callback=_suggests, **UNSEEN)
@click.option("--system-prompt-snapshot", type=click.Choice(["on", "off"]), callback=_snapshot, **UNSEEN)
@click.option("--allow-dangerously-skip-permissions", is_flag=True, hidden=True, expose_value=False)
@accepted_and_not_used
@run_options
def oneshot(prompt: str | None, **values: Any) -> None:
    """Run one prompt and print the final answer.

    Without PROMPT it is read from stdin; with one, piped stdin is added to it. Tools that would need your
    permission are refused and the work goes on without them: allow them with --allowed-tools or --permission-mode. A
    prompt that begins with / is a command of the session, such as /help or /agent parallel.

    What it changed is checked by the project's own command, as in make test, and the result says whether that passes.

    Exit code: 0 done or interrupted, 1 failed.
    """
    values.pop("flag")
    if values.pop("asks") == "none":
        values["permission_prompt_tool"] = None
    options = take(values)
    flags = RunFlags(**{name: values[name] for name in RunFlags.__struct_fields__})
    talk = flags.input_format == "stream-json"
    if talk and prompt is not None:
        raise ConfigError("with --input-format stream-json, prompts come on stdin", hint="leave the other one out")
    text = None if talk else streams.prompt(prompt, note=_note)
    hold_secrets()
    sys.exit(run_async(_run(text, options, flags)))


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run before its session is open. Without a text the prompts come on stdin."""

    text: str | None
    agent: str
    spec: SessionSpec
    flags: RunFlags
    permitting: str
    hooks: HostHooks | None
    check: SchemaCheck | None

    @property
    def hosted(self) -> tuple[str, ...]:
        """The MCP servers that the program driving us runs itself."""
        return tuple(name for name, entry in self.spec.tools.servers.items() if entry.get("type") == "sdk")


async def _run(text: str | None, options: RunOptions, flags: RunFlags) -> int:
    check = _check(flags.json_schema)
    if not options.chosen():
        from treadle.cli.choice import settle

        options = await settle(options, talks=False)
    run = _prepare(text, options, flags, check)
    stream, wire = take_stdio(flags.output_file), Connection("run")
    early: list[Heard] = []
    try:
        session = await _opened(_opening(run, stream, wire, early))
    except TreadleError as error:
        if flags.output_format != "text":  # a script reads its failure there too
            codex = flags.output_format == "codex-json"
            with suppress(PeerClosed):
                await stream.write(json_line({"type": "error", "message": str(error)} if codex else not_begun(error)))
        raise
    lifetime.loaded()
    for note in opening_notes(session):
        _note(note)
    telling = asyncio.create_task(_tell_warnings(session.events(after=-1, observer=True)))
    permissions = None
    verifier = _verifier(run)
    try:
        if run.permitting:
            permissions = asyncio.create_task(_put_to_tool(session, run.permitting, run.hosted))
        runner = _runner(run, session, stream, wire, verifier)
        if flags.hook_events and flags.output_format == "stream-json":
            from treadle.doors.oneshot.hooks import write_hook_lines

            write_hook_lines(session, runner)
        work, interrupt = _work(run, session, runner, stream, early)
        broken = BROKEN_PIPE if flags.strict else 1
        with _listed(run, session):
            return await _until_done(_reported(work, runner, flags.last_message), interrupt, stream, broken)
    finally:
        if permissions is not None:
            permissions.cancel()  # what is still asked needs no answer, and a host that answers is no longer read
        verifier.close()
        await session.close()
        await telling
        if permissions is not None:
            with suppress(asyncio.CancelledError):
                await permissions


def _listed(run: PreparedRun, session: Session) -> AbstractContextManager[None]:
    if run.agent == "native" or not run.spec.start.persist:
        return nullcontext()
    from treadle.agent.stored_sessions import under_way

    return under_way(f"{session.info.name}:{session.id}", run.spec.cwd, run.text or "")


def _prepare(text: str | None, options: RunOptions, flags: RunFlags, check: SchemaCheck | None) -> PreparedRun:
    """Settle what the session is opened with, and say what of the options is not used."""
    if unasked := options.unasked():
        _note(unasked)
    theirs = options.theirs()
    spec = options.spec(answers=flags.permission_prompt_tool is not None, default_mode="suggest")
    if options.continue_last and options.agent == "native":
        spec = _or_new(spec)
    if text is None:
        spec = msgspec.structs.replace(spec, routine=("sources",))
    spec, permitting = _permitting(spec, flags.permission_prompt_tool, talk=text is None)
    if text is None and not permitting:  # `initialize` is answered at once
        spec = msgspec.structs.replace(spec, tools=msgspec.structs.replace(spec.tools, later=True))
    hooks = None
    if text is None and takes_programs(options.agent):
        from treadle.doors.oneshot.hooks import HostHooks

        hooks = HostHooks(spec.cwd, warn=_note)
    if notice := (theirs.reading + theirs.of_hooks).notice:
        _note(f"--settings: {notice}")
    if hooks is not None:
        spec = msgspec.structs.replace(spec, program=hooks.program())
    return PreparedRun(
        text=text, agent=options.agent, spec=spec, flags=flags, permitting=permitting, hooks=hooks, check=check
    )


def _or_new(spec: SessionSpec) -> SessionSpec:
    """Scripts give --continue always, also the first time: then it begins a session."""
    from treadle.agent.stored_sessions import latest

    if latest(spec.cwd) is not None:
        return spec
    _note("no session to continue here: starting one")
    return msgspec.structs.replace(spec, start=msgspec.structs.replace(spec.start, resume=None, fork=False))


async def _opening(run: PreparedRun, stream: FdStream, wire: Connection, early: list[Heard]) -> Session:
    """Open the session, after the greeting of the program that drives us, which may say more about it."""
    spec = run.check.instruct(run.spec) if run.check else run.spec
    if run.text is None:
        from treadle.doors.oneshot.hosting import first_records, greeted
        from treadle.io.link import Link

        early.extend(await first_records(Link(stream, wire)))
        spec = greeted(early, spec)
    return await find_agent(run.agent).open(spec)


def _verifier(run: PreparedRun) -> TurnCheck:
    from treadle.sandboxed.turns import TurnCheck

    if run.flags.verify is not None and run.flags.no_verify:
        raise ConfigError("--verify and --no-verify cannot be combined", hint="leave one out")
    return TurnCheck(run.spec.cwd, run.flags.verify or "", off=run.flags.unchecked, note=_note)


def _runner(run: PreparedRun, session: Session, stream: FdStream, wire: Connection, verifier: TurnCheck) -> OneShot:
    extra, flags, spec = None, run.flags, run.spec
    if flags.verbose or flags.partial:
        from treadle.doors.oneshot.hosting import Verbose

        deltas = run.text is not None
        extra = Verbose(
            session,
            cwd=spec.cwd,
            mode=spec.mode,
            lines=flags.verbose,
            partial=flags.partial,
            deltas=deltas,
            subagents=flags.forward,
        )
    return OneShot(
        session,
        flags.output_format,
        out=stream,
        strict=flags.strict,
        extra=extra,
        check=run.check,
        unknown_cost=flags.unknown_cost,
        wire=wire,
        hosting=_hosting(session, flags.mirror) if run.text is None else None,
        verifier=verifier,
        seconds=spec.limits.max_seconds,
    )


def _hosting(session: Session, mirror: bool) -> Hosting:
    from treadle.doors.oneshot.hosting import Adaptable, Mirror
    from treadle.doors.oneshot.run import Hosting

    hosting = Hosting(session.earlier_usage() if isinstance(session, Adaptable) else ())
    if mirror:
        hosting.before_result = Mirror(session).news
    return hosting


def _work(
    run: PreparedRun, session: Session, runner: OneShot, stream: FdStream, early: list[Heard]
) -> tuple[Coroutine[Any, Any, int], Interrupt]:
    """What is to be done, one prompt or those that come on stdin, and how it is interrupted."""
    if run.text is None:
        from treadle.doors.oneshot.input import StreamInput

        talk = StreamInput(
            session,
            runner,
            stream,
            _note,
            early=early,
            answers=run.spec.answers and not run.permitting,
            hooks=run.hooks,
            servers=run.hosted,
            instructions=run.spec.instructions,
            replay=run.flags.replay,
            resumed=run.spec.start.resume is not None,
        )
        return talk.run(), talk.interrupt
    return runner.run(run.text), runner.interrupt


def _check(json_schema: str | None) -> SchemaCheck | None:
    if not json_schema:
        return None
    from treadle.doors.oneshot.hosting import SchemaCheck

    return SchemaCheck.load(json_schema)


def _permitting(spec: SessionSpec, tool: str | None, *, talk: bool) -> tuple[SessionSpec, str]:
    """The MCP tool that answers permission questions; empty when the host does, or no one. It answers nothing else."""
    if tool is None or tool == "stdio" and talk:
        return spec, ""
    if tool == "stdio":
        raise ConfigError("--permission-prompt-tool stdio needs --input-format stream-json")
    if not tool.startswith("mcp__"):
        raise ConfigError(f"--permission-prompt-tool {tool} is not a tool of an MCP server", hint="mcp__SERVER__TOOL")
    tools = msgspec.structs.replace(spec.tools, denied=(*spec.tools.denied, "ask_user"))
    return msgspec.structs.replace(spec, tools=tools), tool


def _put_to_tool(session: Session, tool: str, hosted: tuple[str, ...]) -> Coroutine[Any, Any, None]:
    from treadle.doors.oneshot.hosting import Adaptable
    from treadle.doors.oneshot.input import put_to_tool
    from treadle.wire.mcp.connection import server_prefix

    if not isinstance(session, Adaptable):
        raise ConfigError(f"{session.info.name} cannot ask an MCP tool for permission", hint="the native agent can")
    there = not tool.startswith(tuple(map(server_prefix, hosted)))
    return put_to_tool(session, session.reserve_tool(tool, there=there), _note)


async def _tell_warnings(events: EventReader) -> None:
    """Print warnings as they come, until the session is closed."""
    from treadle.cli.render import retrying

    async for event in events:
        with suppress(OSError):  # no one reads stderr any more
            if isinstance(event, Warned) and event.code != "gap":
                _note(event.message)
            elif isinstance(event, Retrying):
                _note(f"{retrying(event)} (try {event.attempt + 1})")


async def _reported(work: Coroutine[Any, Any, int], runner: OneShot, last_message: str | None) -> int:
    """Run the work, then write the answer where it is wanted, and name the tasks that end with the session."""
    code = await work
    if last_message is not None:
        from treadle.io.files import write_atomic

        answer = runner.result.result if runner.result is not None else ""
        write_atomic(last_message, answer.encode() if isinstance(answer, str) else b"")
    for task in runner.unfinished:
        _note(f"{task.id} ({task.label}) was not finished and ends with this run")
    return code


async def _opened(opening: Coroutine[Any, Any, Session]) -> Session:
    """Open the session. A signal before that ends everything at once, because there is no turn yet to report."""
    task = asyncio.create_task(opening)
    signals: list[int] = []

    def leave(signum: int) -> None:
        signals.append(signum)
        task.cancel()

    on_signals(leave)
    await asyncio.wait([task])
    if signals:
        if not task.cancelled() and task.exception() is None:
            await task.result().close()
        sys.exit(128 + signals[0])
    return task.result()


async def _until_done(work: Coroutine[Any, Any, int], interrupt: Interrupt, stream: FdStream, broken: int) -> int:
    """Return the exit code of the work. A signal interrupts the turn; a reader that is gone ends everything quietly."""
    on_signals(lambda signum: _interrupt(interrupt, signum))
    try:
        code = await unless(stream.abandoned(), work)
    except PeerClosed:
        return broken
    return broken if code is None else code


_interrupts: set[asyncio.Task[None]] = set()


def _interrupt(interrupt: Interrupt, signum: int) -> None:
    start_held(_interrupts, interrupt(f"interrupted by {signal.Signals(signum).name}"))


def _note(message: str) -> None:
    from treadle.cli.render import printable  # most runs have nothing to tell

    print(f"treadle: {printable(message)}", file=sys.stderr, flush=True)


# `treadle exec`: what Codex's SDK and scripts start as `codex exec`, for any agent.

MODES = {"read-only": "suggest", "workspace-write": "full-auto", "danger-full-access": "yolo"}
EFFORT = "model_reasoning_effort"
DECIDED = ("approval_policy", "web_search")
"""Keys of --config whose meaning is decided here by other things: no one can be asked, and rules permit tools."""


@click.command("exec", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1)
@click.option("--json", "--experimental-json", "as_json", is_flag=True, help="One JSON event per line.")
@click.option("--model", "-m", metavar="NAME", help="The model, as in treadle -p.")
@click.option("--agent", metavar="NAME", help="Which agent runs it.")
@click.option("--sandbox", "-s", type=click.Choice(list(MODES)), help="Write access of commands.")
@click.option("--full-auto", is_flag=True, help="The same as --sandbox workspace-write.")
@click.option(
    "--dangerously-bypass-approvals-and-sandbox", "--yolo", "bypass", is_flag=True, help="No sandbox and no approvals."
)
@click.option("--cd", "-C", "directory", metavar="DIR", help="Work there.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="Another directory to work in.")
@click.option("--output-schema", metavar="FILE", help="JSON Schema for the final answer.")
@click.option("--output-last-message", "-o", metavar="FILE", help="Also write the final answer to this file.")
@click.option("--ephemeral", is_flag=True, help="Do not save the session.")
@click.option("--config", "-c", multiple=True, metavar="KEY=VALUE", help=f"Codex setting; only {EFFORT} is used.")
@click.option("--skip-git-repo-check", is_flag=True, hidden=True)
@click.option("--thread-source", hidden=True)
@click.option("--last", is_flag=True, help="With resume: continue the last session in this directory.")
def exec_(words: tuple[str, ...], directory: str | None, **given: Any) -> None:
    """Run one prompt with any agent in place of `codex exec`, for the Codex SDK and scripts.

    WORDS are [resume ID] [PROMPT]. Without PROMPT, or with -, the prompt is read from stdin. To use any agent with the
    Codex SDK: new Codex({ codexPathOverride: "treadle" }). The lines of --json: treadle docs one-shot.
    """
    arguments = oneshot_arguments(words, **given)
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise ConfigError(f"--cd {directory}: {error.strerror}") from error
    sys.exit(oneshot.main(arguments, prog_name="treadle exec", standalone_mode=False))


def oneshot_arguments(
    words: tuple[str, ...],
    *,
    as_json: bool = False,
    model: str | None = None,
    agent: str | None = None,
    sandbox: str | None = None,
    full_auto: bool = False,
    bypass: bool = False,
    add_dir: tuple[str, ...] = (),
    output_schema: str | None = None,
    output_last_message: str | None = None,
    ephemeral: bool = False,
    config: tuple[str, ...] = (),
    last: bool = False,
    **_: Any,
) -> list[str]:
    """The same run as arguments of `treadle -p`."""
    mode = "yolo" if bypass else MODES[sandbox or ("workspace-write" if full_auto else "read-only")]
    found = ["-p", "--permission-mode", mode]
    found += ["--output-format", "codex-json"] if as_json else []
    found += ["--no-session-persistence"] if ephemeral else []
    files = (("--json-schema", output_schema), ("--last-message", output_last_message))
    for option, value in (("--model", model), ("--agent", agent), *files):
        found += [option, value] if value is not None else []
    for directory in add_dir:
        found += ["--add-dir", directory]
    found += _configured(config)
    if words[:1] == ("resume",):
        words = words[1:]
        found += ["--continue"] if last else ["--resume", *_first(words)]
        words = words if last else words[1:]
    if len(words) > 1:
        raise ConfigError(f"there is more than one prompt: {' and '.join(map(repr, words))}", hint="quote it")
    return [*found, "--", *words] if words and words != ("-",) else found


def _first(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        raise ConfigError("resume needs the id of a session", hint="or --last")
    return words[:1]


def _configured(config: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for entry in config:
        key, _, text = entry.partition("=")
        if key.strip() == EFFORT:
            try:
                value = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:
                value = text
            found += ["--effort", str(value)]
        elif key.strip() not in DECIDED:
            print(f"treadle: --config {key} is not used here", file=sys.stderr)
    return found

"""`treadle ls`, `status`, `peek`, `tail`, `explain` and `detectors`: what terminals do and show."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from treadle.cli.arguments import Arguments, UsageError, small
from treadle.cli.terminal import WHERE, connect, directory, place, show, warn
from treadle.errors import NotFound, PeerStalled, TreadleError
from treadle.io.files import opened
from treadle.io.paths import at_home
from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import detectors
from treadle.terminal.listing import detail_of, rows
from treadle.terminal.listing import row as row_of
from treadle.terminal.places import stale
from treadle.terminal.states import UNKNOWN
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from treadle.terminal.places import Place


# `treadle ls`.

WATCH_PAUSE = 1.0
LEFT = "left by a dead supervisor; the next terminal with that id, or `treadle gc`, removes it"


LS_HELP = """List terminals.

    treadle ls [--all] [--json] [--watch]
    treadle ls --lost [--json]

Lists running terminals: state, time, directory, queued texts, command, and last question or message. --all adds ended
ones with their exit codes. --watch refreshes until Ctrl-C. Sockets of dead supervisors are reported.
--lost lists terminals that a reboot or a killed supervisor ended; `treadle restore` restarts them.
"""


@small(LS_HELP, WHERE, "--all --json --watch --lost")
def ls_command(given: Arguments) -> int:
    given.exactly(0, "no arguments")
    where = directory(given)
    if "--lost" in given.flags:
        return _lost(where, "--json" in given.flags)
    if "--watch" in given.flags:
        return _watch(where, "--all" in given.flags)
    left = [f"{path}: {LEFT}" for path in stale(where)]
    found = [row for row in rows(where) if row["alive"] or "--all" in given.flags]
    if "--json" in given.flags:
        show(found)
    elif not os.path.isdir(where):
        sys.stdout.write(f"No sessions yet: there is no {where}\n")
    elif not found:
        sys.stdout.write("No active sessions\n")
    else:
        _table(found)
    if left:
        warn("\n".join(f"treadle: {line}" for line in left))
    return 0


def _lost(where: str, as_json: bool) -> int:
    import time

    from treadle.terminal.restore import lost

    found = lost(where)
    rows = [{"id": e.place.id, "workdir": e.settings.workdir, "command": list(e.settings.command)} for e in found]
    if as_json:
        show([row | {"seen": each.seen, "env": each.variables} for row, each in zip(rows, found, strict=True)])
        return 0
    width = max((len(each.place.id) for each in found), default=0)
    for row, each in zip(rows, found, strict=True):
        ago = span(max(0, int((time.time() - each.seen) * 1000)))
        words = " ".join(row["command"])
        sys.stdout.write(f"  {row['id']:{width}}  seen {ago} ago  {at_home(each.settings.workdir)}  {words}\n")
    last = (
        "`treadle restore ID` starts one again, `treadle restore --all` every agent" if rows else "No terminal was lost"
    )
    sys.stdout.write(f"{last}\n")
    return 0


def _watch(where: str, everything: bool) -> int:
    """On a terminal, redraw the list in place; in a pipe, print one below the other."""
    import time

    before = None
    while True:
        found = [row for row in rows(where) if row["alive"] or everything]
        seen = [(row["id"], row["state"], row.get("message")) for row in found]
        if seen != before or sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[J" if sys.stdout.isatty() else "")
            _table(found) if found else sys.stdout.write("No active sessions\n")
            sys.stdout.flush()
            before = seen
        time.sleep(WATCH_PAUSE)


def _table(found: list[dict[str, Any]]) -> None:
    width = max(len(row["id"]) for row in found)
    sys.stdout.write("Active sessions:\n" if all(row["alive"] for row in found) else "Sessions:\n")
    for row in found:
        sys.stdout.write(f"  {row['id']:{width}}  {words(row)}\n")


def words(row: dict[str, Any]) -> str:
    if not row["alive"]:
        return f"{'dead':10}  code {row['code']}{', ' + row['reason'] if row.get('reason') else ''}"
    if row["idle_ms"] is None:
        return f"{row['state']:10}  pid {row['pid']}, {row['reason']}"
    command = " ".join(row.get("command") or [])
    about = row.get("message") or row.get("last_line") or ""
    most = 300 if row.get("dialog") else 60
    about = f"[{row['dialog']}] {about}" if row.get("dialog") else about
    queued = sum(prompt["stage"] == "queued" for prompt in row.get("prompts") or ())
    parts = [
        f"{row['state']:10}  {span(row['state_ms']):>6}",
        f"pid {row['pid']}",
        at_home(row.get("workdir") or ""),
        f"{queued} queued" if queued else "",
        command if len(command) <= 40 else f"{command[:39]}…",
        about if len(about) <= most else f"{about[: most - 1]}…",
    ]
    return "  ".join(part for part in parts if part)


def span(milliseconds: int) -> str:
    """A time span in its largest unit, as people say it."""
    seconds = milliseconds // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


# `treadle status`.

WAITS_FOR = {"text": "its input box is empty", "stopped": "the program is no longer stopped"}


STATUS_HELP = """Show a terminal's state.

    treadle status ID [--json]

Prints session, pid, idle_ms, alive and state. If the agent's own report and its screen disagree, "but" is the source
that was not believed. "mode" is shown while the input box takes something other than prompts, such as shell commands.
If the program waits for a person: the question and its dialog id. Then the texts queued with `treadle send
--when-idle`. --json adds the evidence, and the exit record of an ended terminal. If the supervisor does not respond,
as on a very busy machine, the state is unknown.
"""


@small(STATUS_HELP, WHERE, "--json", words="terminals")
def status_command(given: Arguments) -> int:
    where = place(given, given.exactly(1, "one id")[0])
    as_json = "--json" in given.flags
    try:
        with connect(where) as client:
            client.timeout = where.patience
            detail = detail_of(where, client)
    except NotFound:
        return _ended(where.exit, where.id, as_json)
    except PeerStalled as error:
        return _silent(where, as_json, error.message)
    if as_json:
        show(detail)
        return 0
    found = detail["state"]
    hint = f", {found['hint']} by its rhythm" if found.get("hint") else ""
    sys.stdout.write(
        f"session: {where.id}\n"
        f"pid:     {detail['pid']}\n"
        f"idle_ms: {detail['idle_ms']}\n"
        f"alive:   {'true' if detail['alive'] else 'false'}\n"
        f"state:   {found['name']} ({found['since_ms']}ms{hint})\n"
    )
    found["but"], found["asks"] = found.get("why", {}).get("against"), found.get("message")
    for name in ("but", "mode", "asks", "dialog"):
        if text := found.get(name):
            sys.stdout.write(f"{name + ':':8} {text}\n")
    for prompt in detail.get("prompts") or []:
        why = f" until {WAITS_FOR.get(prompt['waits_for'], 'it is idle')}" if prompt["stage"] == "queued" else ""
        sys.stdout.write(
            f"{prompt['stage']}{why}: {prompt['number']}  {(prompt['text'].splitlines() or [''])[0][:80]}\n"
        )
    return 0


def _silent(where: Place, as_json: bool, why: str) -> int:
    """Its supervisor lives, but does not answer: what it last said may be over by now."""
    supervisor, pid = where.pids()
    if as_json:
        state = {"name": UNKNOWN, "why": {"source": "process", "said": why}}
        show({"id": where.id, "supervisor": supervisor or None, "pid": pid, "alive": True, "state": state})
    else:
        sys.stdout.write(f"session: {where.id}\npid:     {pid}\nalive:   true\nstate:   {UNKNOWN} ({why})\n")
    return 0


def _ended(path: str, name: str, as_json: bool) -> int:
    from treadle.terminal.history import exit_record

    record = exit_record(path)
    if as_json:
        show({**record, "alive": False})
    else:
        why = f": {record['reason']}" if record.get("reason") else ""
        sys.stdout.write(f"session: {name}\nalive:   false\nstate:   dead (code {record['code']}{why})\n")
    return 0


# `treadle peek`.

PEEK_HELP = """Show a terminal's screen without attaching, also after it has ended.

    treadle peek ID [--json]

Prints the visible text; --json adds size, cursor and title. An open question and its dialog id are printed on standard
error.
"""


@small(PEEK_HELP, WHERE, "--json", words="terminals")
def peek_command(given: Arguments) -> int:
    where = place(given, given.exactly(1, "one id")[0])
    from treadle.terminal.viewers.screen import snapshot

    found = snapshot(where)
    found["dialog"] = (asks := row_of(where)).get("dialog")
    if "--json" in given.flags:
        show(found)
    else:
        lines = found["lines"]
        while lines and not lines[-1]:
            lines.pop()
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        if found["dialog"]:
            sys.stdout.flush()
            warn(f"treadle: it asks ({found['dialog']}): {asks.get('message') or ''}")
    return 0


# `treadle tail`.

BLOCK = 64 * 1024


TAIL_HELP = """Show the last lines of a terminal's output, also after it has ended.

  treadle tail ID [--lines N] [-f] [--strip]

--lines N   number of lines (default: 20)
-f          follow the output until the program ends; exits with its exit code
--strip     remove colours and other escape sequences
"""


@small(TAIL_HELP, f"--lines -n {WHERE}", "-f --follow --strip", words="terminals")
def tail_command(given: Arguments) -> int:
    where = place(given, given.exactly(1, "one id")[0])
    count = int(given.number("--lines", given.number("-n", 20)))
    write = _writer("--strip" in given.flags)
    if not given.flags & {"-f", "--follow"}:
        write(_end(where, count))
        return 0
    try:
        return _follow(where, count, write)
    except NotFound:
        from treadle.terminal.history import exit_record

        _warn_of_lost_end(where)
        write(last_lines(where, count, None))
        code = exit_record(where.exit).get("code")
        return code if isinstance(code, int) else 1


def _end(where: Place, count: int) -> bytes:
    """The last lines, from the file or from a supervisor that keeps no file. Warns when the file is behind."""
    try:
        with connect(where) as client:
            client.timeout = 2.0
            try:
                _warn_of_loss(client.detail()["output"])
            except PeerStalled:
                from treadle.terminal.viewers.screen import replayed

                return b"\n".join(replayed(client).rsplit(b"\n", count + 1)[-count - 1 :])
    except (NotFound, PeerStalled):
        _warn_of_lost_end(where)
    return last_lines(where, count, None)


def _warn_of_loss(output: dict[str, Any]) -> None:
    if output["lost"]:
        warn(f"treadle: {output['lost']} bytes could not be written, the disk was full: what is shown here is old")
        warn("  `treadle peek` and `treadle attach` show what there is now")


def _warn_of_lost_end(where: Place) -> None:
    """For a terminal that has ended: if the disk was full then, its last output is lost."""
    from treadle.terminal.history import exit_record

    try:
        lost = exit_record(where.exit).get("output_lost")
    except TreadleError:
        return
    if lost:
        warn(f"treadle: {lost} bytes could not be written, the disk was full: the end may be missing here")


def _follow(where: Place, count: int, write: Callable[[bytes], None]) -> int:
    """The file has everything up to an offset, and the socket everything after it: nothing is missing or repeated."""
    with connect(where) as client:
        try:
            output = client.detail()["output"]
        except PeerStalled:  # a supervisor without our additions offers only its scrollback
            output = None
        if output:
            _warn_of_loss(output)
            write(last_lines(where, count, output["file_size"]))
            client.hello(wire.READ_ONLY | wire.FROM, output["end"])
        client.subscribe()
        for message in client.messages():
            if isinstance(message, wire.ProgramOutput):
                write(message.data)
            elif isinstance(message, wire.Exit):
                return message.code
    return 1


def last_lines(where: Place, count: int, size: int | None) -> bytes:
    """The last lines on disk: of the current file up to `size`, and of the one before it when needed."""
    found = _end_of(where.out, count, size)
    lines = found.count(b"\n") + (not found.endswith(b"\n") and bool(found))
    if lines < count and os.path.exists(f"{where.out}.1"):
        found = _end_of(f"{where.out}.1", count - lines, None) + found
    return found


def _end_of(path: str, count: int, size: int | None) -> bytes:
    """Read backwards, block by block, until enough lines are found."""
    parts: list[bytes] = []
    try:
        with opened(path) as file:
            at = file.seek(0, os.SEEK_END) if size is None else size
            wanted = count + 1  # and the newline before the first of them; the last line may or may not end with one
            while at > 0 and wanted > 0 < count:
                step = min(BLOCK, at)
                at -= step
                file.seek(at)
                block = file.read(step)
                if not parts and not block.endswith(b"\n"):
                    wanted -= 1
                found = block.count(b"\n")
                if found >= wanted:
                    block = block.split(b"\n", found - wanted + 1)[-1]
                wanted -= found
                parts.append(block)
    except FileNotFoundError:
        return b""
    return b"".join(reversed(parts))


def _writer(strip: bool) -> Callable[[bytes], None]:
    clean: Callable[[bytes], bytes] = bytes
    if strip:
        from treadle.terminal.sequences import Stripper

        clean = Stripper().feed

    def write(data: bytes) -> None:
        view = memoryview(clean(data))
        while view:  # sys.stdout may be unbuffered (PYTHONUNBUFFERED), and would then drop what a pipe does not take
            view = view[os.write(1, view) :]

    return write


# `treadle explain`.

EXPLAIN_HELP = """Show why a terminal has its current state.

    treadle explain ID [--json]

Use it when a state is wrong. It shows the detected agent and why, its title and reports, the parts of its screen, and
which rules of the agent's table match.
"""


@small(EXPLAIN_HELP, WHERE, "--json", words="terminals")
def explain_command(given: Arguments) -> int:
    where = place(given, given.exactly(1, "one id")[0])
    with connect(where) as client:
        found = client.explain()
    if "--json" in given.flags:
        show(found)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(found)))
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    why = found["why"]
    agent = f"{found['agent']}, known by {found['known_by']}" if found["agent"] else "none that is known"
    lines = [
        f"state:    {found['state']}",
        f"because:  {why['source']}: {why['said']}",
        *([f"but:      {why['against']}"] if "against" in why else []),
        f"agent:    {agent}",
        f"title:    {found['title'] or '(none)'}",
        f"report:   {found['report'] or '(none)'}",
        f"quiet:    {found['quiet_ms']} ms; by its rhythm it would be {found['rhythm']}",
    ]
    lines += [f"table:    {name}: {fault}" for name, fault in found["unreadable"].items()]
    if not found["agent"]:
        return lines
    lines.append(f"table:    {found['table']}")
    lines.append(f"box:      {'an input box is drawn' if found['box'] else 'no input box'}")
    seen = [sign for sign in found["signs"] if sign["seen"] is not None]
    lines += ["signs that are seen:"] + [f"  {sign['state']:10} {sign['where']:8} {sign['seen']}" for sign in seen]
    for name in ("dialog", "status", "last"):
        text = [line for line in found["regions"][name].split("\n") if line.strip()][-8:]
        lines += [f"{name}:", *(f"  | {line}" for line in text)]
    return lines


# `treadle detectors`.

DETECTORS_HELP = """List the rules that detect an agent's state from its screen.

    treadle detectors [--json]

Lists each agent, the file of its table, and what is wrong with an invalid one. Tables in the directory `detectors`
beside config.toml override the installed ones. The format of a table: `treadle docs detectors`.
"""


@small(DETECTORS_HELP, "", "--json")
def detectors_command(given: Arguments) -> int:
    if given.rest not in ([], ["ls"]):
        raise UsageError("expected no arguments")
    own = detectors.own_directory()
    rows = []
    for name, path in detectors.files().items():
        detectors.readable(name)
        whose = "yours" if os.path.dirname(path) == own else "installed"
        rows.append({"agent": name, "table": path, "whose": whose, "fault": detectors.unreadable.get(name)})
    if "--json" in given.flags:
        show(rows)
        return 0
    for row in rows:
        fault = f"  CANNOT BE READ: {row['fault']}" if row["fault"] else ""
        sys.stdout.write(f"{row['agent']:10} {row['whose']:10} {row['table']}{fault}\n")
    return 0

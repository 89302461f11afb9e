"""`treadle init`, `trust`, `coord`, `verify` and `evidence`: prepare a repository for agents, trust its settings,
coordinate, and check what was done in it."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, redirect_stdout, suppress
from functools import partial
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.heimdall.dispatch import run
from treadle.cli.heimdall.table import COMMANDS, OF_TREADLE
from treadle.cli.render import printable
from treadle.coordination import hosts
from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.io.files import write_atomic
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.settings import trust as store
from treadle.settings import trust as trusted_projects
from treadle.verification.finding import check_on_disk

# `treadle init`: prepare a repository for agents. Everything is shown first, and nothing is written unasked.

SETTINGS = os.path.join(".treadle", "config.toml")


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    why: str
    text: str = ""
    """What would be written."""
    done: bool = False


@click.command("init")
@click.option("--yes", is_flag=True, help="Write all proposed files without asking.")
@json_option
def init(yes: bool, as_json: bool) -> None:
    """Set this repository up for agents: AGENTS.md, test command, settings, claims.

    Shows each file and asks before writing it. Existing files are not changed. In a pipe, and with --json, nothing is
    written without --yes.
    """
    top = _top()
    asks = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    strange = bool(trusted_projects.fingerprint(top)[1]) and not trusted_projects.is_trusted(top)
    proposals = [_settle(proposal, write, yes, asks, as_json) for proposal, write in _proposals(top)]
    if not strange and any(proposal.done for proposal in proposals):
        trusted_projects.trust(top)  # all that there is to trust is what was just written, or was trusted before
    if as_json:
        show_json(proposals)
        return
    if not proposals:
        there = os.path.exists(os.path.join(top, SETTINGS))
        rest = f" and {SETTINGS} are" if there else " is"
        unknown = "" if there else f" No command that tests this project was found, so no {SETTINGS} is proposed."
        click.echo(f"Nothing to do: AGENTS.md{rest} here already.{unknown}")
    elif not any(proposal.done for proposal in proposals):
        click.echo("Nothing was written." + ("" if asks or yes else " `treadle init --yes` writes all of it."))
    else:
        more = " Look at the project's other settings, then: treadle trust" if strange else ""
        click.echo(f"Done; `git status` shows what was written.{more} `treadle` opens a chat.")


def _top() -> str:
    from treadle.coordination.repository import find

    found = find(here())
    if found is None:
        raise ConfigError("This directory is not in a git repository", hint="git init")
    return found.top


def _settle(proposal: Proposal, write: Callable[[], None], yes: bool, asks: bool, as_json: bool) -> Proposal:
    if not as_json:
        click.echo(printable(f"\n{proposal.what}: {proposal.why}"))
        for line in proposal.text.splitlines():
            click.echo(printable(f"    {line}"))
    if not yes and not (asks and click.confirm("Write it?" if proposal.text else "Do it?", default=True)):
        return proposal
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # a program reads the JSON alone
        write()
    return msgspec.structs.replace(proposal, done=True)


def _proposals(top: str) -> Iterator[tuple[Proposal, Callable[[], None]]]:
    check, _ = check_on_disk(top)
    guide, settings = os.path.join(top, "AGENTS.md"), os.path.join(top, SETTINGS)
    if not os.path.exists(guide):
        text = _guide(top, check)
        why = "what every agent reads before it begins; add what a new colleague would ask"
        yield Proposal(what="AGENTS.md", why=why, text=text), lambda: _write(guide, text)
    if check and not os.path.exists(settings):
        rules = (
            f"[verify]\ncheck = {json.dumps(check)}  # run after work that changed files, on the branch's own tests\n\n"
            f"[permissions]\nallow = [{json.dumps(f'Bash({check})')}]  # agents may run it without asking\n"
        )
        why = "settings of this project, for those who trust it with `treadle trust`"
        yield Proposal(what=SETTINGS, why=why, text=rules), lambda: _write(settings, rules)
    for name in hosts.NAMES:
        if shutil.which(name) is not None and not _is_set_up(top, name):
            why = f"so that {name} claims files before it edits them, and other agents do not edit them meanwhile"
            yield Proposal(what=f"treadle coord setup {name}", why=why), partial(_coordinate, name)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomic(path, text.encode(), mode=0o644)


def _is_set_up(top: str, name: str) -> bool:
    from treadle.coordination.hosts import planned

    try:
        return all(before == after for before, after in planned(hosts.host(name, top, top).edits).values())
    except TreadleError:
        return True  # its files cannot be read: `treadle coord setup` says why


def _coordinate(name: str) -> None:

    run("setup", [name])


def _guide(top: str, check: str) -> str:
    parts = sorted(name for name in os.listdir(top) if os.path.isdir(os.path.join(top, name)) and name[0] not in "._")
    lines = [f"# {os.path.basename(top)}", ""]
    if check:
        lines += [f"- Run `{check}` before you say that something is done; it must pass.", ""]
    if parts:
        lines += ["Directories: " + ", ".join(f"`{name}/`" for name in parts[:20]) + ".", ""]
    lines += ["Keep changes small, and add a test for what you change."]
    return "\n".join(lines) + "\n"


# `treadle trust`: say which project directories may change settings, run hooks and start servers.


@click.command()
@click.argument("directory", type=click.Path(file_okay=False), default=".", metavar="[DIR]")
@click.option("--list", "listing", is_flag=True, help="List trusted projects.")
@click.option("--remove", is_flag=True, help="Stop trusting DIR.")
@json_option
def trust(directory: str, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust the project in DIR (default: the current directory) with its files as they are now.

    Until then, a project's .treadle/, .mcp.json, backplane.toml and .claude/settings*.json can only restrict
    permissions: hooks do not run, servers do not start, allow rules are ignored. If one of these files changes, the
    project must be trusted again.
    """
    if listing:
        _list(as_json)
    elif remove:
        _remove(directory, as_json)
    else:
        _trust(directory, as_json)


def _list(as_json: bool) -> None:
    entries = store.entries()
    if as_json:
        show_json(entries)
    elif not entries:
        click.echo("nothing is trusted yet")
    else:
        for entry in entries:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.at))
            click.echo(f"{when}  {entry.path}{'  (changed since: not trusted)' if entry.changed else ''}")


def _remove(directory: str, as_json: bool) -> None:
    path = os.path.realpath(directory)
    removed = store.remove(directory)
    if as_json:
        show_json({"path": path, "removed": removed})
    else:
        click.echo(f"{path} is not trusted any more" if removed else f"{path} was not trusted")


def _trust(directory: str, as_json: bool) -> None:
    added = store.trust(directory)
    if as_json:
        show_json(added)
        return
    for entry in added:
        click.echo(f"trusted {entry.path}")
        for name in entry.files:
            click.echo(f"  {name}")
        if not entry.files:
            click.echo("  it has no project files yet; when it gets some, trust it again")


# `treadle coord NAME`: the `heimdall-*` commands under the one program.


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def coord(ctx: click.Context, name: str | None, arguments: tuple[str, ...]) -> None:
    """Coordinate agents that share a repository: file claims, identities, messages, token use."""
    if name in COMMANDS or name in OF_TREADLE:
        ctx.exit(run(name, list(arguments)))
    if name not in (None, "-h", "--help", "help"):
        raise click.UsageError(f"there is no {name!r}; there are {', '.join({**OF_TREADLE, **COMMANDS})}")
    click.echo("Usage: treadle coord NAME ...\n")
    for known, what in OF_TREADLE.items():
        click.echo(f"  {known:11} {what}")
    click.echo("\nThe same as heimdall-NAME:\n")
    for known, what in COMMANDS.items():
        click.echo(f"  {known:11} {what}")
    click.echo("\n`treadle coord NAME --help` has the details.")


# `treadle verify` and `treadle evidence`: check what a checkout changes; what is known about work that was done.


@click.command("verify")
@click.option("--base", default="HEAD", show_default=True, metavar="REV", help="Check the changes since this commit.")
@click.option("--check", default="", metavar="CMD", help="The check command. Default: the project's own.")
@click.option("--may-change", multiple=True, metavar="GLOB", help="Tests that the changes may edit. Repeatable.")
@click.option("--explain", metavar="FILE", help="Only show how a file is classified, and why.")
@json_option
def verify(base: str, check: str, may_change: tuple[str, ...], explain: str | None, as_json: bool) -> None:
    """Run a commit's own tests and configuration against the changes in this checkout.

    \b
    treadle verify                                  check uncommitted changes
    treadle verify --base main --check "make test"
    treadle verify --explain conftest.py            is this file part of the tests or of the product?

    Exit code: 0 if it is proven, tested or passed, else 1.
    """
    from treadle.sandboxed.turns import Checkout, top_of

    if (top := top_of(here())) is None:
        raise ConfigError("This directory is not in a git repository", hint="git init")
    checkout = Checkout(top, base, check, may_change)
    if explain is not None:
        path = os.path.relpath(os.path.join(here(), explain), top)
        role, why = checkout.role(path)
        return show_json({"path": path, "role": role, "why": why}) if as_json else click.echo(f"{role}: {path} {why}")
    from treadle.host.evidence import keep_check
    from treadle.receipts.evidence import evidence_lines

    done, patch = run_async(checkout.verify())
    found, stored = done.evidence, keep_check(done)
    assert found and stored
    if as_json:
        show_json(found)
    else:
        _show([*evidence_lines(found, patch), f"record    {stored.id}, {stored.standing}"])
        if found.corners[0].ended == "red":
            click.echo(printable(f"\n{done.output_tail[-2000:].strip()}"))
    sys.exit(0 if found.good else 1)


@click.command("evidence")
@click.argument("name", metavar="RUN|ORDER|ID", default="latest")
@json_option
def evidence(name: str, as_json: bool) -> None:
    """Summarize the evidence for a run or an order on one screen.

    RUN is a run's id or id prefix, `latest`, or a receipt file. ID is an evidence id from a landed commit. Anything
    else is read as an ORDER.
    """
    from treadle.cli.receipt import parsed
    from treadle.host import evidence as records
    from treadle.receipts.evidence import evidence_lines, evidence_of, screen
    from treadle.receipts.trace import ours

    if records.ID.fullmatch(name):
        stored = records.load(name)
        if as_json:
            return show_json({**msgspec.to_builtins(stored), "standing": stored.standing})
        return _show([*_of_record(stored), *evidence_lines(stored.evidence, "")])
    receipt = parsed(_receipt_text(name), name)
    found = evidence_of(receipt)
    record = None
    with suppress(NotFound):
        record = records.load(found.id) if found is not None else None
    if as_json:
        ending = (ours(receipt).get("observed") or {}).get("ending") or {}
        more = {"evidence": found, "record": record.id if record is not None else None}
        return show_json({"run": receipt.meta.run_id, "outcome": receipt.outcome, "ending": ending, **more})
    return _show([*screen(receipt), *(_of_record(record) if record is not None else ())])


def _of_record(stored: Any) -> Iterator[str]:
    yield f"record    {stored.id} of {time.strftime('%Y-%m-%d %H:%M', time.localtime(stored.at))}, {stored.standing}"
    for each in stored.receipts:
        yield f"receipt   {each}"


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(line))


def _receipt_text(name: str) -> bytes:
    from treadle.cli.receipt import find_path, open_store
    from treadle.io.files import read
    from treadle.wire.sidecar.receipts import LARGEST

    try:
        return read(find_path(name, open_store(None)), LARGEST)
    except NotFound:
        from treadle.fleet.engine import places

        if name == "latest" or not os.path.exists(os.path.join(places.root(), "fleet.json")):
            raise
    from treadle.cli.fleet.common import with_order
    from treadle.fleet import results

    return with_order(name, results.run_receipt)

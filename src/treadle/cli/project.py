"""`treadle init`, `trust`, `coord`, `verify` and `evidence`: prepare a repository for agents, trust its settings,
coordinate, and check what was done in it."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, redirect_stdout
from functools import partial
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.heimdall.dispatch import run
from treadle.cli.heimdall.table import COMMANDS, OF_TREADLE
from treadle.cli.render import one_line, printable
from treadle.coordination import hosts
from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.io.files import write_atomic
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.settings import trust as store
from treadle.settings import trust as trusted_projects
from treadle.verification.evidence import GOOD, CheckEvidence, CornerResult
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
@click.option("--yes", is_flag=True, help="Write everything that is proposed, without asking.")
@json_option
def init(yes: bool, as_json: bool) -> None:
    """Prepare this repository for agents: AGENTS.md, its tests, settings, claims.

    Each file is shown before you are asked whether to write it; files that exist are left alone. In a pipe, and with
    --json, nothing is written unless you add --yes.
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
@click.option("--list", "listing", is_flag=True, help="Show what is trusted.")
@click.option("--remove", is_flag=True, help="Stop trusting DIR.")
@json_option
def trust(directory: str, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust the project in DIR (default: here) as its files are now.

    Until then, what a project's .treadle/, .mcp.json, backplane.toml and .claude/settings*.json say can only narrow
    what is allowed: hooks do not run, servers are not started, allow rules are ignored. When one of these files
    changes, the project must be trusted again.
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
    """Coordinate agents that share a repository: claims, identities, messages, capsules, the token ledger."""
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
    click.echo("\n`treadle coord NAME --help` says more.")


# `treadle verify` and `treadle evidence`: check what a checkout changes; what is known about work that was done.

CORNERS = {
    "old judge": "its product, the tests of before",
    "work": "all of it",
    "old product": "the product of before, its tests",
    "base": "as it was before",
}
SHOWN = 12
"""Lines of the riskiest hunk, and of each list."""
_TEST = re.compile(
    r"\s*(?:async\s+)?(?:def\s+(test\w*)|func\s+(Test\w+)|fn\s+(\w*test\w*)|(?:test|it)\(\s*[\"'`]([^\"'`]+))"
)
_RISKY = re.compile(r"\b(?:skip|xfail|exit|_exit|abort|except|catch|eval|exec|assert\w*|expect)\b")


@click.command("verify")
@click.option("--base", default="HEAD", show_default=True, metavar="REV", help="Check what differs from this commit.")
@click.option("--check", default="", metavar="CMD", help="The command. Default: the project's own.")
@click.option("--may-change", multiple=True, metavar="GLOB", help="Tests that the work may change. Again for more.")
@click.option("--explain", metavar="FILE", help="Only say what a file counts as, and why.")
@json_option
def verify(base: str, check: str, may_change: tuple[str, ...], explain: str | None, as_json: bool) -> None:
    """Check what this checkout changes of a commit, by the tests, runner and configuration of that commit.

    \b
    treadle verify                                  what is not committed
    treadle verify --base main --check "make test"
    treadle verify --explain conftest.py            is it judge or product?

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
    evidence, patch, output = run_async(checkout.verify())
    if as_json:
        show_json(evidence)
    else:
        show_evidence(evidence, patch)
        if evidence.corners[0].ended == "red":
            click.echo(printable(f"\n{output[-2000:].strip()}"))
    sys.exit(0 if evidence.good else 1)


@click.command("evidence")
@click.argument("name", metavar="RUN|ORDER", default="latest")
@json_option
def evidence(name: str, as_json: bool) -> None:
    """Say what is known about the work of a run or an order: one screen.

    RUN is the id of a run or its beginning, `latest`, or a receipt's file; what is none of these is an ORDER.
    """
    from treadle.cli.receipt import parsed
    from treadle.receipts.trace import ours

    receipt = parsed(_receipt_text(name), name)
    more = ours(receipt)
    seen = more.get("observed") or {}
    ending, check = seen.get("ending") or {}, seen.get("check") or {}
    found = check.get("evidence") or ending.get("evidence")
    if as_json:
        return show_json({"run": receipt.meta.run_id, "outcome": receipt.outcome, "ending": ending, "evidence": found})
    click.echo(f"{receipt.outcome}  {receipt.meta.run_id}  {receipt.backend.id}")
    if task := (more.get("order") or {}).get("task"):
        click.echo(printable(f"asked     {one_line(str(task))}"))
    if ending:
        click.echo(printable(f"ending    {ending['state']}: {ending['why']}"))
    if found is None:
        click.echo("No check was run, so nothing is known about it beside what it says.")
        return None
    patch = receipt.verification.git_diff
    show_evidence(msgspec.convert(found, CheckEvidence), patch if isinstance(patch, str) else "")
    return None


def _receipt_text(name: str) -> bytes:
    from treadle.cli.receipt import find_path, open_store
    from treadle.io.files import read

    try:
        return read(find_path(name, open_store(None)))
    except NotFound:
        if name == "latest":
            raise
    from treadle.cli.fleet.common import with_order
    from treadle.fleet import results

    return with_order(name, results.run_receipt)


def show_evidence(found: CheckEvidence, patch: str) -> None:
    """One screen: the word, what changed, what was run, what was not checked, the riskiest part."""
    for line in evidence_lines(found, patch):
        click.echo(printable(line))


def evidence_lines(found: CheckEvidence, patch: str) -> Iterator[str]:
    good = "" if found.word in GOOD else "NOT VERIFIED, "
    yield f"check     {found.command}"
    yield f"word      {good}{found.word}: {found.why}"
    yield f"product   {_some(found.product)}"
    yield f"judge     {_some(found.judge)}"
    for path, why in [*found.doubtful.items()][:SHOWN]:
        yield f"          look at {path}: it {why}, and does more than add tests"
    for corner in found.corners:
        yield f"{corner.ended:9} {CORNERS[corner.corner]}{_counted(corner)}, {corner.seconds:.1f} s"
    for canary in found.canaries:
        where = "at the end of each" if canary.kind == "last" else "when each is loaded"
        noticed = "noticed" if canary.ended == "red" else "NOT noticed"
        yield f"canary    a failure {where} of {canary.files} test files: {noticed}"
    new, gone = _tests(patch, "+"), _tests(patch, "-")
    yield f"tests     new: {_some(new - gone)}; gone: {_some(gone - new)}"
    for missing in found.not_checked:
        yield f"unknown   {missing}"
    if hunk := _riskiest(found, patch):
        yield ""
        yield from hunk


def _some(names: Any) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return (", ".join(listed[:SHOWN]) or "none") + more


def _counted(corner: CornerResult) -> str:
    counts = corner.counts
    if counts is None:
        return ", number of tests unknown"
    return f", {counts.ran} tests ran, {counts.failed} failed, {counts.skipped} skipped"


def _tests(patch: str, sign: str) -> set[str]:
    found = (_TEST.match(line[1:]) for line in patch.splitlines() if line.startswith(sign))
    return {next(filter(None, one.groups())) for one in found if one is not None}


def _riskiest(found: CheckEvidence, patch: str) -> list[str]:
    """The hunk to look at first: of the judge before the product, with words that can hide a failure, the longest."""
    best: tuple[tuple[int, int, int], list[str]] | None = None
    for file in re.split(r"(?m)^diff --git ", patch)[1:]:
        path = file.split("\n", 1)[0].rpartition(" b/")[2]
        role = 2 if path in found.doubtful else 1 if path in found.judge else 0
        for hunk in re.split(r"(?m)^(?=@@ )", file)[1:]:
            lines = hunk.splitlines()
            changed = [line for line in lines[1:] if line.startswith(("+", "-"))]
            score = (role, sum(len(_RISKY.findall(line)) for line in changed), len(changed))
            if best is None or score > best[0]:
                best = score, [f"look first at {path}:", *(f"    {line}" for line in lines[:SHOWN])]
    return best[1] if best is not None else []

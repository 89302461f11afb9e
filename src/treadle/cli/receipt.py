"""`treadle receipt`: look at receipts, compare them, and find out whether anybody has changed them."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.host_show import WIDTH, show_receipt
from treadle.cli.render import one_line, printable
from treadle.errors import ConfigError, NotFound
from treadle.host.backends import find_backends
from treadle.host.listing import Wanted, moment, row_of
from treadle.host.recover import kept_runs
from treadle.host.signing import load_signer, make_key
from treadle.host.store import ReceiptStore, signature_problems
from treadle.io.files import write_atomic
from treadle.io.reading import read, read_if_there
from treadle.receipts.statement import envelope
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.repair import Deviation, read_receipt

store_option = click.option("--store", metavar="DIR", help="Where receipts are kept. Default: yours.")


@click.group()
def receipt() -> None:
    """Receipts of runs: list, show, compare, verify. FILE is a path, a run's id or its beginning, or `latest`."""


def _store(directory: str | None) -> ReceiptStore:
    return ReceiptStore(directory or find_backends().receipts_dir)


def _path(name: str, store: ReceiptStore) -> str:
    if os.path.exists(name):
        return name
    ids = [link.run_id for link in store.links()]
    if name == "latest" and ids:
        return store.path(ids[-1])
    fitting = [run_id for run_id in ids if run_id.startswith(name.lower())]
    if len(fitting) != 1:
        many = f"{len(fitting)} receipts begin with" if fitting else "there is no file and no receipt"
        raise NotFound(f"{many} {name!r}", hint="treadle receipt list shows them")
    return store.path(fitting[0])


def _read(name: str, store: ReceiptStore, notes: list[Deviation], *, as_abp: bool = False) -> Receipt:
    path = _path(name, store)
    try:
        return receipts.normal(read_receipt(read(path), notes, as_abp=as_abp))
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} is not a receipt: {error}") from error


@receipt.command("list")
@click.option("--agent", metavar="TEXT", help="Only of agents and backends whose name holds this.")
@click.option("--outcome", type=click.Choice(["complete", "partial", "failed"]), help="Only those that ended so.")
@click.option("--since", metavar="WHEN", help="Only newer ones: 90m, 12h, 7d, or a date such as 2026-01-31.")
@click.option("--repository", metavar="DIR", help="Only of runs on this directory or something in it.")
@click.option("--task", metavar="TEXT", help="Only those whose task holds this, in upper or lower case.")
@store_option
@json_option
def list_receipts(
    agent: str | None,
    outcome: str | None,
    since: str | None,
    repository: str | None,
    task: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List receipts, the oldest first."""
    kept = _store(store)
    wanted = Wanted(
        agent=agent,
        outcome=outcome,
        since=moment(since) if since else None,
        repository=os.path.realpath(repository) if repository else None,
        task=task,
    )
    rows = [row for row in (row_of(kept, link) for link in kept.links()) if wanted.fits(row)]
    if as_json:
        show_json(rows)
        return
    for row in rows:
        head = f"{row.sequence:5}  {row.run_id}  {row.outcome:8}  {row.started_at:24}  {row.backend}"
        click.echo(printable(f"{head}  {one_line(row.task or '')}"[:WIDTH]))


@receipt.command("show")
@click.argument("file")
@store_option
@json_option
def show(file: str, store: str | None, as_json: bool) -> None:
    """Show a receipt."""
    kept = _store(store)
    found = _read(file, kept, [])
    if as_json:
        click.echo(receipts.encode(found))
    else:
        show_receipt(found, _path(file, kept))


@receipt.command("order")
@click.argument("file")
@store_option
def order(file: str, store: str | None) -> None:
    """Print the order that a run was given, without its secrets."""
    kept = _store(store)
    path = kept.order_path(_read(file, kept, []).meta.work_order_id)
    text = read_if_there(path)
    if text is None:
        raise NotFound("the order of this run is not kept", hint=f"it would be {path}")
    click.echo(text.decode(), nl=False)


@receipt.command("diff")
@click.argument("a")
@click.argument("b")
@click.option("--asked", is_flag=True, help="Compare only what was asked for: task, agent, policy, base commit.")
@store_option
@json_option
def diff(a: str, b: str, asked: bool, store: str | None, as_json: bool) -> None:
    """Say in what two receipts differ. Exits with 1 when they do."""
    kept = _store(store)
    one, other = (msgspec.json.decode(receipts.encode(_read(name, kept, []))) for name in (a, b))
    if asked:
        one, other = _asked(one), _asked(other)
    found = list(_differences(one, other, ""))
    if as_json:
        show_json([{"where": where, "a": old, "b": new} for where, old, new in found])
    else:
        for where, old, new in found:
            click.echo(f"{where}\n  - {_short(old)}\n  + {_short(new)}")
    sys.exit(1 if found else 0)


def _asked(receipt: dict[str, Any]) -> dict[str, Any]:
    raw = receipt.get("usage_raw")
    more = raw.get("treadle") if isinstance(raw, dict) else None
    if not isinstance(more, dict) or "order" not in more:
        raise ConfigError("one of the receipts does not say what was asked for", hint="older ones do not")
    order = {name: value for name, value in more["order"].items() if name != "stored"}
    return {"order": order, "policy": (more.get("policy") or {}).get("rules")}


def _differences(a: Any, b: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            yield from _differences(a.get(name), b.get(name), f"{where}.{name}" if where else name)
    elif isinstance(a, list) and isinstance(b, list):
        for at in range(max(len(a), len(b))):
            one, other = (each[at] if at < len(each) else None for each in (a, b))
            yield from _differences(one, other, f"{where}[{at}]")
    elif a != b:
        yield where, a, b


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}..."


@receipt.command("verify")
@click.argument("file", required=False)
@click.option("--chain", is_flag=True, help="Check every receipt of the store, and their order.")
@click.option("--key", metavar="PUBLIC", help="Also require a signature with this key (treadle receipt key).")
@click.option("--expect-last", metavar="SHA256", help="With --chain: the hash that the last receipt must have.")
@click.option("--as-abp", is_flag=True, help="Read decimals as the first implementation does: see the reference.")
@store_option
@json_option
def verify(
    file: str | None,
    chain: bool,
    key: str | None,
    expect_last: str | None,
    as_abp: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Check the hash of a receipt, and what else must be true of it; with --chain, of all that are kept.

    Exits with 1 when something is wrong.
    """
    if chain == bool(file):
        raise click.UsageError("give either a FILE or --chain")
    kept = _store(store)
    notes: list[Deviation] = []
    if file is not None:
        problems = _problems(_read(file, kept, notes, as_abp=as_abp), key)
        checked = file
    elif not os.path.isdir(kept.directory):
        raise NotFound(f"there are no receipts in {kept.directory}")
    else:
        problems = [
            f"{found.run_id or 'chain'}: {found.kind}: {found.message}"
            for found in kept.check(public_key=key, expect_last=expect_last)
        ]
        checked = f"{len(kept)} receipts in {kept.directory}"
    if as_json:
        show_json({"checked": checked, "valid": not problems, "problems": problems, "notes": [*map(str, notes)]})
    else:
        for line in (*problems, *(f"note: {note}" for note in notes)):
            click.echo(printable(line))
        click.echo(f"{checked}: {'not valid' if problems else 'valid'}")
    sys.exit(1 if problems else 0)


def _problems(found: Receipt, key: str | None) -> list[str]:
    problems = []
    expected = receipts.receipt_hash(found)
    if found.receipt_sha256 is None:
        problems.append(f"it has no hash; it would be {expected}")
    elif found.receipt_sha256 != expected:
        problems.append(f"its hash is {found.receipt_sha256}, and that of its content is {expected}")
    if found.meta.contract_version != receipts.CONTRACT:
        problems.append(f"its contract is {found.meta.contract_version!r}, not {receipts.CONTRACT!r}")
    if found.meta.finished_at.rstrip("Z") < found.meta.started_at.rstrip("Z"):
        problems.append("it finished before it started")
    errors = any(isinstance(event, receipts.ErrorMet) for event in found.trace)
    if found.outcome == "failed" and not errors:
        problems.append("it failed, and its trace has no error")
    problems += [f"{kind}: {message}" for kind, message in signature_problems(found, key)]
    return problems


@receipt.command("repair")
@store_option
@json_option
def repair(store: str | None, as_json: bool) -> None:
    """Put right what a crash has left of the chain, and say what was done. Receipts are not changed."""
    done = _store(store).repair()
    if as_json:
        show_json(done)
        return
    for line in done or ["there was nothing to repair"]:
        click.echo(printable(line))


@receipt.command("export")
@click.argument("file")
@click.option("--out", metavar="FILE", help="Write it there instead of to stdout.")
@store_option
def export(file: str, out: str | None, store: str | None) -> None:
    """Print a receipt as an in-toto statement in a DSSE envelope, signed with your key, for other verifiers."""
    signer = load_signer()
    if signer is None:
        raise NotFound("an envelope needs a key to sign it with", hint="treadle receipt keygen makes one")
    try:
        made = envelope(_read(file, _store(store), []), signer.sign, signer.public_key)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    text = msgspec.json.encode(made) + b"\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_atomic(out, text, 0o644)


@receipt.command("discard")
@click.option("--older-than", required=True, metavar="WHEN", help="90m, 12h, 30d, or a date such as 2026-01-31.")
def discard(older_than: str) -> None:
    """Throw away what is kept of old runs: workspaces, patches, artifacts. The receipts stay, as their chain must."""
    before = moment(older_than)
    for run in kept_runs().values():
        if os.stat(run.directory).st_mtime < before:
            run.discard()
            click.echo(f"discarded {run.run_id}")


@receipt.command("keygen")
def keygen() -> None:
    """Make the key with which your receipts are signed from now on. Prints its public half, to be kept elsewhere."""
    click.echo(make_key().public_key)


@receipt.command("key")
def key() -> None:
    """Print the public half of your key."""
    signer = load_signer()
    if signer is None:
        raise NotFound("you have no key", hint="treadle receipt keygen makes one")
    click.echo(signer.public_key)

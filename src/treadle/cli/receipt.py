"""`treadle receipt`: look at receipts, compare them, and find out whether anybody has changed them."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.host_show import WIDTH, show_receipt
from treadle.cli.receipt_files import find_path, open_store, store_option
from treadle.cli.receipt_verify import verify
from treadle.cli.render import one_line, printable
from treadle.errors import ConfigError, NotFound
from treadle.host.listing import Wanted, moment, row_of
from treadle.host.recover import retained_runs
from treadle.host.signing import load_signer, make_key, read_seed
from treadle.host.store import ReceiptStore
from treadle.io.files import write_atomic
from treadle.io.reading import read, read_if_there
from treadle.receipts.statement import envelope, provenance, statement
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.repair import read_receipt


@click.group()
def receipt() -> None:
    """Receipts of runs: list, show, compare, verify. FILE is a path, a run's id or its beginning, or `latest`."""


def _read(name: str, store: ReceiptStore) -> Receipt:
    path = find_path(name, store)
    try:
        return receipts.normal(read_receipt(read(path), []))
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
    stored = open_store(store)
    wanted = Wanted(
        agent=agent,
        outcome=outcome,
        since=moment(since) if since else None,
        repository=os.path.realpath(repository) if repository else None,
        task=task,
    )
    rows = [row for row in (row_of(stored, link) for link in stored.links()) if wanted.fits(row)]
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
    stored = open_store(store)
    found = _read(file, stored)
    if as_json:
        click.echo(receipts.encode(found))
    else:
        show_receipt(found, find_path(file, stored))


@receipt.command("order")
@click.argument("file")
@store_option
def order(file: str, store: str | None) -> None:
    """Print the order that a run was given, without its secrets."""
    stored = open_store(store)
    path = stored.order_path(_read(file, stored).meta.work_order_id)
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
    stored = open_store(store)
    one, other = (msgspec.json.decode(receipts.encode(_read(name, stored))) for name in (a, b))
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


receipt.add_command(verify)


@receipt.command("repair")
@store_option
@json_option
def repair(store: str | None, as_json: bool) -> None:
    """Put right what a crash has left of the chain, and say what was done. Receipts are not changed."""
    done = open_store(store).repair()
    if as_json:
        show_json(done)
        return
    for line in done or ["there was nothing to repair"]:
        click.echo(printable(line))


STATEMENTS = {"provenance": provenance, "receipt": statement}


@receipt.command("export")
@click.argument("file")
@click.option("--only", type=click.Choice(list(STATEMENTS)), help="Only this one of the two statements.")
@click.option(
    "--form",
    type=click.Choice(["envelope", "statement", "predicate"]),
    default="envelope",
    show_default=True,
    help="Signed with your key; or without a signature, for a program that signs it, whole or only what is stated.",
)
@click.option("--out", metavar="FILE", help="Write it there instead of to stdout.")
@store_option
def export(file: str, only: str | None, form: str, out: str | None, store: str | None) -> None:
    """Print a receipt for other verifiers: in-toto statements in DSSE envelopes, signed with your key, one per line.

    The first is SLSA provenance of the result, the second has the whole receipt.
    """
    signer = load_signer() if form == "envelope" else None
    if signer is None and form == "envelope":
        raise NotFound("an envelope needs a key to sign it with", hint="treadle receipt keygen makes one")
    found = _read(file, open_store(store))
    lines = []
    for name, make in STATEMENTS.items():
        try:
            made = make(found) if only in (None, name) else None
        except ValueError as error:
            if only is not None or name == "receipt":
                raise ConfigError(str(error)) from error
            continue  # a run that made nothing has no provenance
        if made is not None:
            signed = made if signer is None else envelope(made, signer.sign, signer.public_key)
            lines.append(msgspec.json.encode(signed["predicate"] if form == "predicate" else signed) + b"\n")
    if out is None:
        click.echo(b"".join(lines), nl=False)
    else:
        write_atomic(out, b"".join(lines), 0o644)


@receipt.command("discard")
@click.option("--older-than", required=True, metavar="WHEN", help="90m, 12h, 30d, or a date such as 2026-01-31.")
def discard(older_than: str) -> None:
    """Throw away what is kept of old runs: workspaces, patches, artifacts. The receipts stay, as their chain must."""
    before = moment(older_than)
    for run in retained_runs().values():
        if os.stat(run.directory).st_mtime < before:
            run.discard()
            click.echo(f"discarded {run.run_id}")


@receipt.command("keygen")
@click.option(
    "--from",
    "origin",
    metavar="WHERE",
    help="Use an Ed25519 key that exists: a file, env:NAME, or command:PROGRAM that prints it.",
)
def keygen(origin: str | None) -> None:
    """Make the key with which your receipts are signed from now on. Prints its public half, to be kept elsewhere.

    With --from, it is taken from a file, a variable or a command, such as a secret of your CI: PEM, OpenSSH or base64.
    """
    click.echo(make_key(seed=read_seed(origin) if origin else None).public_key)


@receipt.command("key")
def key() -> None:
    """Print the public half of your key."""
    signer = load_signer()
    if signer is None:
        raise NotFound("you have no key", hint="treadle receipt keygen makes one")
    click.echo(signer.public_key)

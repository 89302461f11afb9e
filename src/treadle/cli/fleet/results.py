"""`treadle fleet diff`, `review`, `discard`, `compare`, `receipt`: the results of orders."""

import sys
from typing import Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import ORDER, fleet_command, order_named, table, with_order
from treadle.cli.render import one_line, printable


@click.command("diff")
@click.argument("name", metavar=ORDER)
@json_option
def diff(name: str, as_json: bool) -> None:
    """Show what an order changed, as a patch."""
    from treadle.fleet import results

    data = with_order(name, results.diff)
    if as_json:
        show_json({"patch": data.decode("utf-8", "replace")})
    elif sys.stdout.isatty():
        click.echo(printable(data.decode("utf-8", "replace")), nl=False)
    else:
        click.echo(data, nl=False)


def _show_review(found: dict[str, Any]) -> None:
    order = found["order"]
    verified = {True: "verified", False: "NOT verified"}.get(order.result.get("verified"), "not checked by a command")
    click.echo(f"{order.id}  {order.state}, {verified}: {one_line(order.title)}")
    for word in ("says", "ending", "stat", "outside_claims", "under_claims_of"):
        if order.result.get(word):
            click.echo(f"{word.replace('_', ' '):9} {printable(str(order.result[word]))}")
    click.echo(printable(found["patch"]), nl=False)


@fleet_command("review", _show_review, of=order_named)
async def review(bus: Any, name: str) -> Any:
    """Look at what an order did: what it says, whether it was verified, and the patch.

    `treadle fleet again ORDER --comments FILE` sends comments on it back to the agent that did it.
    """
    from treadle.errors import NotFound
    from treadle.fleet import client, results

    order = await client.get_order(bus, name)
    try:
        patch = (await results.diff(bus, order.id)).decode("utf-8", "replace")
    except NotFound as error:
        patch = f"({error})\n"
    return {"order": order, "patch": patch}


@fleet_command("discard")
@click.argument("names", metavar="ORDER...", nargs=-1, required=True)
async def discard(bus: Any, names: tuple[str, ...]) -> Any:
    """Throw the work of orders away: their branches go; receipts and patches stay."""
    from treadle.fleet import results

    orders = [await order_named(bus, name) for name in names]
    for order in orders:
        await results.discard(bus, order)
    return [{"id": order, "discarded": True} for order in orders]


def _show_standings(rows: list[dict[str, Any]]) -> None:
    lines = [["PLACE", "ORDER", "STATE", "AGENT", "VERIFIED", "FILES", "TOKENS"]]
    for number, row in enumerate(rows, 1):
        verified = {True: "yes", False: "no", None: "-"}[row["verified"]]
        cells = [str(number), row["order"], row["state"], row["agent"], verified, str(row["files"])]
        lines.append([*cells, str(row["tokens"])])
    table(lines)


@fleet_command("compare", _show_standings, of=order_named)
async def compare(bus: Any, order: str) -> Any:
    """Compare the orders of a race: verified first, then the smallest change, then the lowest cost."""
    from treadle.fleet import results

    return await results.standings(bus, order)


@click.command("receipt")
@click.argument("name", metavar=ORDER)
@click.option("--out", metavar="FILE", help="Write it there instead, for treadle receipt show, verify and export.")
@json_option
def receipt(name: str, out: str | None, as_json: bool) -> None:
    """Show the receipt of an order's run, on whatever machine it ran.

    \b
    treadle fleet receipt ORDER --out run.json
    treadle receipt verify ./run.json --trusted keys.toml --expect confined=yes,verified=yes

    It is signed with the key of the person or machine that ran it, if there was one.
    """
    from treadle.cli.host import show_receipt
    from treadle.fleet import results
    from treadle.io.files import write_atomic
    from treadle.wire.sidecar.repair import read_receipt

    text = with_order(name, results.run_receipt)
    if out is not None:
        write_atomic(out, text + b"\n", 0o644)
    elif as_json:
        click.echo(text)
    else:
        show_receipt(read_receipt(text, []))


COMMANDS = (diff, review, discard, compare, receipt)

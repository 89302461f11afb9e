"""`treadle fleet search` and `phone`: find old work again, and be reached when away."""

from typing import Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import with_bus
from treadle.cli.render import colourful, one_line
from treadle.errors import ConfigError


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(["task", "turn", "command", "file"]), help="Only in these texts.")
@click.option("-n", "--count", default=25, show_default=True, help="How many.")
@json_option
def search(words: tuple[str, ...], kind: str | None, count: int, as_json: bool) -> None:
    """Search what orders were asked, what was said and run in them, and the files they touched. Best hits first."""
    from treadle.fleet.find.searching import up_to_date

    async def work(bus: Any) -> Any:
        async with up_to_date(bus) as index:
            return index.search(" ".join(words), count=count, kind=kind or "")

    hits, total = with_bus(work)
    if as_json:
        return show_json({"hits": hits, "total": total})
    import sys

    bold, plain = ("\x1b[1m", "\x1b[0m") if colourful(sys.stdout) else ("", "")
    for hit in hits:
        click.echo(f"{hit.order}  {hit.state:9}  {hit.kind:7}  {one_line(hit.title)[:60]}")
        text = hit.text.replace("\x01", "\ue000").replace("\x02", "\ue001")
        click.echo(f"    {one_line(text).replace(chr(0xE000), bold).replace(chr(0xE001), plain)}")
    if total > len(hits):
        click.echo(f"{total} texts match; these are the best of each order", err=True)
    elif not hits:
        click.echo("Nothing that was said, run or touched matches.", err=True)


@click.command("phone")
@click.option("--name", default="phone", show_default=True, metavar="NAME", help="What the device is called here.")
@click.option("--right", type=click.Choice(["watch", "answer", "all"]), default="answer", help="What it may do.")
@json_option
def phone(name: str, right: Any, as_json: bool) -> None:
    """Show a QR code with which a phone signs in, once, to answer what agents ask.

    The server must be one that the phone reaches, over TLS: a browser gives a page on plain http neither
    notifications nor a place on the home screen. See `treadle serve --help`, or use the name of a proxy or tailnet.
    """
    from treadle.serve import running
    from treadle.serve.tokens import Tokens

    note = running.find()
    if note is not None and note.address.startswith("http://"):
        raise ConfigError(
            f"the server is at {note.address}, which a phone cannot reach or would reach in plain text",
            hint="`treadle serve --host ADDRESS --local-ca` (or --tls-cert FILE, or --behind-proxy with --name NAME)",
        )
    url = running.link(Tokens(), right, name)
    if as_json:
        return show_json({"url": url, "name": name, "right": right})
    import segno

    segno.make(url, error="m").terminal(compact=True)
    click.echo(f"\n{url}\n\nScan or open it once, within ten minutes. Then it may: {right}.")


COMMANDS = (search, phone)

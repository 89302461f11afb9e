"""`treadle docs`: the documentation, as installed."""

import os
import re
import shutil
import sys
from difflib import get_close_matches

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import colourful
from treadle.errors import NotFound
from treadle.io.reading import read

KINDS = {"tutorials": "Tutorials", "how-to": "How to", "explanation": "Why it is so", "reference": "Reference"}


class DocsPage(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    title: str
    path: str


def _root() -> str:
    """Where the pages are: in the installed package, or in a checkout beside the sources."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (os.path.join(package, "docs"), os.path.join(os.path.dirname(os.path.dirname(package)), "docs")):
        if os.path.isdir(os.path.join(place, "reference")):
            return place
    raise NotFound("this installation has no documentation", hint="install treadle again")


def pages() -> list[DocsPage]:
    found = []
    for kind in KINDS:
        folder = os.path.join(_root(), kind)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".md"):
                path = os.path.join(folder, name)
                title = read(path).decode().partition("\n")[0].removeprefix("# ")
                found.append(DocsPage(name=name.removesuffix(".md"), kind=kind, title=title, path=path))
    return found


@click.command("docs")
@click.argument("name", required=False, metavar="[PAGE]")
@json_option
def docs(name: str | None, as_json: bool) -> None:
    """List the pages of the documentation, or show one.

    \b
    treadle docs
    treadle docs one-shot

    On a terminal a page is shown by $PAGER; in a pipe it is plain Markdown.
    """
    known = pages()
    if name is not None:
        _show(_find(name, known), as_json)
    elif as_json:
        show_json(known)
    else:
        for kind, title in KINDS.items():
            click.echo(f"{title}:")
            for page in known:
                if page.kind == kind:
                    click.echo(f"  {page.name:34} {page.title}")


def _find(name: str, known: list[DocsPage]) -> DocsPage:
    wanted = os.path.basename(name).removesuffix(".md").lower()
    for page in known:
        if page.name == wanted:
            return page
    near = get_close_matches(wanted, [page.name for page in known], n=1) or [
        page.name for page in known if wanted in page.name or wanted in page.title.lower()
    ]
    hint = f"perhaps `treadle docs {near[0]}`" if near else "`treadle docs` lists them"
    raise NotFound(f"there is no page {name!r}", hint=hint)


def _show(page: DocsPage, as_json: bool) -> None:
    text = read(page.path).decode()
    if as_json:
        show_json({"name": page.name, "title": page.title, "text": text})
    elif not sys.stdout.isatty():
        click.echo(text, nl=False)
    else:
        click.echo_via_pager(_drawn(text))


def _drawn(text: str) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    out = StringIO()
    colour = colourful(sys.stdout)
    width = min(shutil.get_terminal_size().columns, 100)
    console = Console(file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, emoji=False)
    shown = re.sub(r"!\[(.*?)\]\(.*?\)", r"(a picture: \1)", re.sub(r"<!--.*?-->\n?", "", text))
    console.print(Markdown(shown, hyperlinks=False))
    return out.getvalue()

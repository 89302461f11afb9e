"""Fetch a model that runs on this machine, and say how far it is."""

import sys

import click

from treadle.agent.providers.local.catalog import KNOWN, KnownModel, ModelRecord, fetched
from treadle.errors import ConfigError
from treadle.installation import adding, has


async def fetch(model: str, sha256: str = "", name: str = "") -> ModelRecord:
    """Fetch a model by its name or address; how far it is goes to stderr."""
    from treadle.agent.providers.local import fetch

    progress = DownloadBar()
    try:
        if "://" in model:
            click.echo(f"{model}: it needs at least as much memory as its file is large", err=True)
            return await fetch.pull_address(model, sha256, progress.show, name)
        known = KNOWN.get(model)
        if known is None:
            raise ConfigError(f"there is no model {model!r} to fetch", hint=f"a URL, or {', '.join(KNOWN)}")
        for record in fetched():
            if record.name == known.name and record.sha256 == known.sha256:
                return record
        click.echo(_before(known), err=True)
        return await fetch.pull_known(known, progress.show)
    finally:
        progress.close()


def _before(known: KnownModel) -> str:
    """What a person wants to know before fetching a gigabyte."""
    extra = "" if has("local") else f"; to run it: {adding('local')}"
    return (
        f"{known.title}: {known.size / 1e9:.1f} GB to fetch, {known.memory / 1e9:.1f} GB of memory while it runs;"
        f" {known.speed}{extra}"
    )


STEP, STEP_BYTES = 10, 100_000_000
"""In a pipe or a log there is a line for so many percent more, or bytes where the total is not known."""


class DownloadBar:
    """Shows how far a download is: in one line that changes on a terminal, else in a line for every tenth."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = ""
        self._steps = -1

    def show(self, size: int, total: int | None) -> None:
        text = (
            f"{size / 1e6:,.0f} of {total / 1e6:,.0f} MB ({100 * size // total} %)"
            if total
            else f"{size / 1e6:,.0f} MB"
        )
        steps = 100 * size // total // STEP if total else size // STEP_BYTES
        if text == self._last or not self._terminal and steps <= self._steps:
            return
        self._last, self._steps = text, steps
        sys.stderr.write(f"\r{text}\033[K" if self._terminal else f"{text}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._last and self._terminal:
            sys.stderr.write("\n")

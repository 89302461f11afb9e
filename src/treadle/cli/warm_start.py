"""`treadle warm`: keep a process ready from which runs and workers start at once."""

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.warm import AGENT, PRELOAD
from treadle.errors import ConfigError
from treadle.io.process import table, warm


@click.command("warm")
@click.argument("what", type=click.Choice(["start", "status", "stop"]), default="start")
@click.option("--idle", "minutes", type=click.FloatRange(min=0.01), default=30.0, show_default=True, metavar="MINUTES",
              help="End when it was not used for so long.")  # fmt: skip
@json_option
def warm_start(what: str, minutes: float, as_json: bool) -> None:
    """Have `treadle -p` and `treadle-worker` start at once.

    Starting one means loading it, which takes longer than many a turn. After `treadle warm` there is a process of yours
    that has loaded everything, and each run is a copy of it, with the directory, environment, streams, umask, limits
    and signals of the process that starts it. It holds no key and no file of yours, answers only you, ends when unused,
    and can be killed at any time: runs that it started go on, and those that come later start by themselves.
    """
    if what == "stop":
        ended = [*warm.dismiss(AGENT), *warm.dismiss(warm.WORKERS)]
        _say(as_json, {"ended": ended}, f"ended {len(ended)}" if ended else "there was none")
    elif what == "status":
        found = [_record(pid, name) for name in (AGENT, warm.WORKERS) for pid in warm.parents(name).values()]
        lines = [f"warm: process {one['pid']}, {one['rss_bytes'] / 1e6:.0f} MB, {one['for']}" for one in found]  # type: ignore[operator]
        _say(as_json, found, "\n".join(lines) or "nothing is warm: `treadle warm` starts it")
    else:
        if not warm.idle():
            raise ConfigError("TREADLE_WARM=0 says that nothing is to be kept warm", hint="unset it")
        started = warm.begin(AGENT, PRELOAD, minutes * 60)
        words = "warm" if started else "warm already"
        _say(as_json, {"started": started}, f"{words}: treadle -p and treadle-worker now start from it")


def _record(pid: int, name: str) -> dict[str, object]:
    found = table.look(pid)
    served = "runs and workers" if name == AGENT else "workers"
    return {"pid": pid, "rss_bytes": found.rss if found else 0, "for": served}


def _say(as_json: bool, record: object, words: str) -> None:
    if as_json:
        show_json(record)
    else:
        click.echo(words)

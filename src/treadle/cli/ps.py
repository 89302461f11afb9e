"""`treadle ps`: what runs under treadle on this machine."""

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import one_line, short_time
from treadle.io.process import table
from treadle.io.process.registry import KeeperTree, keeper_trees


@click.command()
@json_option
def ps(as_json: bool) -> None:
    """List the process trees that treadle keeps: agents, their tools, terminals, background tasks.

    Each has an owner, the treadle process it belongs to; when that ends, for whatever reason, its keeper ends the tree.

    \b
    OWNER   the treadle process that started it
    KEEPER  the process that ends it when the owner is gone
    PID     the command itself; "-" when it has ended and left others running
    PROCS   how many processes are in the tree now
    RSS     the memory they hold in RAM; pages that they share are counted for each
    """
    trees = keeper_trees()
    if as_json:
        show_json([_record(tree) for tree in trees])
    elif not trees:
        click.echo("No process trees are kept.")
    else:
        _print(trees)


def _record(tree: KeeperTree) -> dict[str, object]:
    owner = table.look(tree.owner)
    return {
        "owner": tree.owner,
        "owner_name": owner.name if owner else None,
        "keeper": tree.keeper,
        "reaper": tree.reaper,
        "pid": tree.pid,
        "running": tree.running,
        "command": tree.command,
        "started": tree.started,
        "age_seconds": round(tree.age, 1),
        "processes": len(tree.processes),
        "rss_bytes": tree.rss,
    }


def _print(trees: list[KeeperTree]) -> None:
    rows = [("OWNER", "KEEPER", "PID", "AGE", "PROCS", "RSS", "COMMAND")]
    for tree in trees:
        pid = str(tree.pid) if tree.running else "-"
        command = " ".join(tree.command)
        numbers = (str(tree.owner), str(tree.keeper), pid, short_time(tree.age), str(len(tree.processes)))
        rows.append((*numbers, f"{tree.rss / 1e6:.0f} MB", one_line(command)))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[6][:200]]))

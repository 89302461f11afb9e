"""`treadle detectors`."""

import os
import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import show, warn
from treadle.errors import ConfigError
from treadle.terminal import detectors

DETECTORS_HELP = """List or test the tables by which an agent's state is read from its screen.

    treadle detectors [ls] [--json]
    treadle detectors test FILE... [--json]

`ls` names each agent, and the file of its table: your own in the directory `detectors` beside config.toml come before
those that are installed. `test` reads a table and judges with it the labelled moments beside it, in NAME.moments.toml,
which `treadle explain ID --record STATE` writes. It exits with 1 when a table cannot be read or a moment is judged
otherwise than it is labelled. What a table holds: `treadle docs detectors`.
"""


def detectors_command(arguments: list[str]) -> int:
    given = Arguments(arguments, "", "--json")
    what, *paths = given.rest or ["ls"]
    if what == "ls" and not paths:
        return _list("--json" in given.flags)
    if what == "test" and paths:
        return max(_test(path, "--json" in given.flags) for path in paths)
    raise UsageError("ls, or test with the file of a table")


def _list(as_json: bool) -> int:
    own = detectors.own_directory()
    rows = []
    for name, path in detectors.files().items():
        detectors.readable(name)
        whose = "yours" if os.path.dirname(path) == own else "installed"
        rows.append({"agent": name, "table": path, "whose": whose, "fault": detectors.unreadable.get(name)})
    if as_json:
        show(rows)
        return 0
    for row in rows:
        fault = f"  CANNOT BE READ: {row['fault']}" if row["fault"] else ""
        sys.stdout.write(f"{row['agent']:10} {row['whose']:10} {row['table']}{fault}\n")
    return 0


def _test(path: str, as_json: bool) -> int:
    from treadle.terminal.detectors import moments
    from treadle.terminal.detectors.reading import read_table

    table, beside = read_table(path), moments.file_of(path)
    if not os.path.exists(beside):
        raise ConfigError(
            f"{path} can be read, but has no labelled moments in {beside}",
            hint="when its agent runs in a terminal: treadle explain ID --record STATE --to FILE",
        )
    results = moments.tested(table, beside)
    wrong = [result for result in results if result[0] != result[1]]
    if as_json:
        show([dict(zip(("labelled", "judged", "because"), result, strict=True)) for result in results])
        return 1 if wrong else 0
    for number, (label, state, why) in enumerate(results, 1):
        if label != state:
            sys.stdout.write(f"moment {number}: labelled {label}, judged {state}, because of {why}\n")
    sys.stdout.write(f"{path}: {len(results) - len(wrong)} of {len(results)} moments are judged as labelled\n")
    if not results:
        warn(f"treadle detectors: {beside} has no moments")
    return 1 if wrong or not results else 0

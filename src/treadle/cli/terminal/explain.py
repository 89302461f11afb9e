"""`treadle explain`."""

import os
import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place, show
from treadle.light import Any

EXPLAIN_HELP = """Say why a terminal is taken to be in its state.

    treadle explain ID [--json]
    treadle explain ID --record STATE [--to FILE]

Shows which agent it is taken for and by what, its title and reports, the parts of its screen, and which signs of that
agent's table are seen there: for when you find that a state is wrong. With --record, the screen as it is now is added,
labelled with the STATE that it really is in, to the moments with which `treadle detectors test` tests the agent's
table: to FILE, or beside your own table in the directory `detectors` of your configuration.
"""


def explain_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"{WHERE} --record --to", "--json")
    where = place(given, given.exactly(1, "one id")[0])
    with connect(where) as client:
        found = client.explain()
    if state := given.values.get("--record"):
        return _record(state, found, given.values.get("--to", ""))
    if "--json" in given.flags:
        show(found)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(found)))
    return 0


def _record(state: str, found: dict[str, Any], path: str) -> int:
    from treadle.io.files import append_lines
    from treadle.terminal import detectors
    from treadle.terminal.detectors import moments

    moment = moments.written(state, found)
    path = path or os.path.join(detectors.own_directory(), found["agent"] + detectors.MOMENTS)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    append_lines(path, moment.encode().split(b"\n"))
    print(f"added to {path}")
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    why = found["why"]
    agent = f"{found['agent']}, known by {found['known_by']}" if found["agent"] else "none that is known"
    lines = [
        f"state:    {found['state']}",
        f"because:  {why['source']}: {why['said']}",
        f"agent:    {agent}",
        f"title:    {found['title'] or '(none)'}",
        f"report:   {found['report'] or '(none)'}",
        f"quiet:    {found['quiet_ms']} ms; by its rhythm it would be {found['rhythm']}",
    ]
    lines += [f"table:    {name}: {fault}" for name, fault in found["unreadable"].items()]
    if not found["agent"]:
        return lines
    lines.append(f"table:    {found['table']}")
    lines.append(f"box:      {'an input box is drawn' if found['box'] else 'no input box'}")
    seen = [sign for sign in found["signs"] if sign["seen"] is not None]
    lines += ["signs that are seen:"] + [f"  {sign['state']:10} {sign['where']:8} {sign['seen']}" for sign in seen]
    for name in ("dialog", "status", "last"):
        text = [line for line in found["regions"][name].split("\n") if line.strip()][-8:]
        lines += [f"{name}:", *(f"  | {line}" for line in text)]
    return lines

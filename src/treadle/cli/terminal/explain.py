"""Say why a terminal is taken to be in its state.

    treadle explain ID [--json]

Shows which agent it is taken for and by what, its title and reports, the parts of its screen, and which signs of that
agent's table are seen there. For somebody who finds that a state is wrong.
"""

import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place, show
from treadle.light import Any


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--json")
    where = place(given, given.exactly(1, "one id")[0])
    with connect(where) as client:
        found = client.explain()
    if "--json" in given.flags:
        show(found)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(found)))
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
    if not found["agent"]:
        return lines
    lines.append(f"box:      {'an input box is drawn' if found['box'] else 'no input box'}")
    seen = [sign for sign in found["signs"] if sign["seen"] is not None]
    lines += ["signs that are seen:"] + [f"  {sign['state']:10} {sign['where']:8} {sign['seen']}" for sign in seen]
    for name in ("dialog", "status", "last"):
        text = [line for line in found["regions"][name].split("\n") if line.strip()][-8:]
        lines += [f"{name}:", *(f"  | {line}" for line in text)]
    return lines

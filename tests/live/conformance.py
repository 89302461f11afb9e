"""The table of docs/reference/conform.md: the kit over our own programs and those of others. Run by `make conform`.

Rows of programs that were not run stay as they are. Programs that must be built first are given by a variable:
HEDDLE, ABP_HOSTS, SUPERX and HM are paths to `heddle-headless`, to the `hosts` folder of agent-backplane, to superx and
to heimdall's `hm`; MCP_SERVERS is the folder of programs with the protocol's own example servers, and NAMED a file with
lines of `PROTOCOL NAME = COMMAND` for any others.
"""

import asyncio
import os
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.conform.conftest import OURS, kit
from tests.live.peer import ADAPTERS
from treadle.conform.kit import Candidate, Ruling, counts, judge

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conform.md"
HEAD = "| Protocol | Program | Version | Kept | Not tried | Last run |\n|---|---|---|---|---|---|\n"
BEGIN, END = "<!-- peers -->\n", "<!-- end of peers -->\n"
BIN = Path(sys.executable).parent
AGENTS = ("gemini", "opencode", "qwen", "kimi", "copilot", *ADAPTERS)


def programs() -> dict[tuple[str, str], str]:
    """(protocol, name) -> command line."""
    found = {(protocol, "treadle"): shlex.join([str(BIN / words[0]), *words[1:]]) for protocol, words in OURS.items()}
    found |= {("acp", name): f"{sys.executable} -m tests.live.peer {name}" for name in AGENTS}
    found["oneshot", "claude"] = f"{sys.executable} -m tests.live.peer claude"
    if heddle := os.environ.get("HEDDLE"):
        found["worker", "heddle"] = heddle
    if hosts := os.environ.get("ABP_HOSTS"):
        found["sidecar", "agent-backplane's node host"] = f"node {hosts}/node/host.js"
        found["sidecar", "agent-backplane's python host"] = f"python3 {hosts}/python/host.py"
    if superx := os.environ.get("SUPERX"):
        found["ledger", "superx"] = f"{superx}/bin/heimdall-ledger-mcp"
    if servers := os.environ.get("MCP_SERVERS"):
        for name in ("everything", f"filesystem {PAGE.parent}", "memory"):
            found["mcp", f"server-{name.split()[0]}"] = f"{servers}/mcp-server-{name}"
    if named := os.environ.get("NAMED"):
        for line in Path(named).read_text().splitlines():
            protocol, _, rest = line.partition(" ")
            name, _, command = rest.partition(" = ")
            found[protocol, name] = command
    if hm := os.environ.get("HM"):
        found["terminal", "heimdall's hm"] = hm
    return found


def row(protocol: str, name: str, rulings: list[Ruling]) -> str:
    kept, broken, untried = counts(rulings)
    version = re.search('"version": "([^"]+)"', rulings[0].seen)  # as it says in its first answer
    columns = (protocol, name, version[1] if version else "", f"{kept} of {kept + broken}", untried)
    return f"| {' | '.join(map(str, columns))} | {datetime.now(UTC).date()} |"


def main() -> None:
    wanted = sys.argv[1:]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {tuple(part.strip() for part in line.split("|")[1:3]): line for line in table.splitlines()[2:] if line}
    for (protocol, name), command in programs().items():
        if not wanted or name in wanted or f"{protocol}:{name}" in wanted:
            candidate = Candidate(command=tuple(shlex.split(command)), env={"PYTHONPATH": os.getcwd()}, patience=90)
            rulings = asyncio.run(judge(kit(protocol), candidate))
            rows[protocol, name] = row(protocol, name, rulings)
            print(rows[protocol, name], flush=True)
            for one in rulings:
                if one.outcome == "broken":
                    print(f"    {one.sentence}: {one.seen}", flush=True)
            PAGE.write_text(before + BEGIN + HEAD + "\n".join(rows[key] for key in sorted(rows)) + "\n" + END + after)


if __name__ == "__main__":
    main()

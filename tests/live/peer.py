"""A real agent as a program that the conformance kit can start: `python -m tests.live.peer NAME [ARGUMENT...]`.

The kit says by ANTHROPIC_BASE_URL where its scripted model is; the agent gets a home of its own that is set up for it.
Without arguments it is started as its card says: the way in which we drive it. NAME can be one of `ADAPTERS`, too.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.drivers.programs import CACHE, NODE, environment, fetch, install
from treadle.drivers.card import cards

ADAPTERS = {
    "claude-agent-acp": ("@agentclientprotocol/claude-agent-acp@0.99.0", "claude", "CLAUDE_CODE_EXECUTABLE"),
    "codex-acp": ("@agentclientprotocol/codex-acp@2.6.0", "codex", "CODEX_PATH"),
    "pi-acp": ("pi-acp@0.0.34", "pi", "PI_ACP_PI_COMMAND"),
}
"""Others' adapters to ACP: the package, the agent behind it, and the variable that names that one's program."""


def main() -> None:
    name, *arguments = sys.argv[1:]
    adapter = ""
    if name in ADAPTERS:
        (package, name, variable), adapter = ADAPTERS[name], name
        fetch("node", NODE)
        fetch(adapter, package)
    home = Path(tempfile.gettempdir(), f"peer-{Path.cwd().name}")  # the same when it is started there again
    fresh = not home.exists()
    home.mkdir(exist_ok=True)
    env = environment(name, home, os.environ["ANTHROPIC_BASE_URL"], fresh=fresh)
    program = str(install(name) / cards()[name].program)
    if adapter:
        env[variable], arguments = program, []
        program = str(CACHE / adapter / "node_modules" / ".bin" / adapter)
        os.execve(program, [program], env)
    os.execve(program, [program, *(arguments or cards()[name].arguments)], env)


if __name__ == "__main__":
    main()

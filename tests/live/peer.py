"""A real agent as a program that the conformance kit can start: `python -m tests.live.peer NAME [ARGUMENT...]`.

The kit says by ANTHROPIC_BASE_URL where its scripted model is; the agent gets a home of its own that is set up for it.
Without arguments it is started as its card says: the way in which we drive it.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.drivers.programs import environment, install
from treadle.drivers.card import cards


def main() -> None:
    name, *arguments = sys.argv[1:]
    env = environment(name, Path(tempfile.mkdtemp(prefix="peer-")), os.environ["ANTHROPIC_BASE_URL"])
    program = str(install(name) / cards()[name].program)
    os.execve(program, [program, *(arguments or cards()[name].arguments)], env)


if __name__ == "__main__":
    main()

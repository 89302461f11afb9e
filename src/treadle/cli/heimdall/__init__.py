"""The `heimdall-*` commands: `claim_command` is `heimdall-claim`.

`table` says which there are, `dispatch` runs them; this module is their executables, and imports nothing heavy.
"""

import os
import sys
from collections.abc import Callable

from treadle.cli.arguments import COMPLETE, exit_code
from treadle.cli.heimdall.dispatch import run
from treadle.cli.heimdall.table import COMMANDS


def _entry(name: str) -> Callable[[], None]:
    """The executable `heimdall-NAME`. It exits without Python's own cleanup, which takes a tenth of the time."""

    def main() -> None:
        from treadle.io.process import lifetime

        if COMPLETE in os.environ:
            lifetime.leave(exit_code(f"heimdall-{name}", lambda: _complete(f"heimdall-{name}")))
        lifetime.leave(run(name, sys.argv[1:]))

    return main


def _complete(program: str) -> int:
    from treadle.cli.help import complete

    complete(program)
    return 0


validate, resolve, capsule, brief, blackboard, ledger, gate, claim, haid, protocol, ledger_mcp = map(_entry, COMMANDS)

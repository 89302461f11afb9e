"""How long `treadle --version` takes, against the same interpreter and node doing nothing."""

import shutil
import sys
from pathlib import Path

from benchmarks._timing import interleaved, show


def main() -> None:
    treadle = str(Path(sys.executable).parent / "treadle")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "treadle --version": [treadle, "--version"],
    }
    if node := shutil.which("node"):
        commands["node -e 0"] = [node, "-e", "0"]
    show(interleaved(commands, rounds=25), against="python -c pass", goal={"treadle --version": 2.0})


if __name__ == "__main__":
    main()

"""`python -m benchmarks [NAME ...]`: run all benchmarks, or the named ones; `page.scroll` is a part of `page`."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    found = [*HERE.glob("*.py"), *(path.parent for path in HERE.glob("*/__init__.py"))]
    known = sorted(path.stem for path in found if not path.stem.startswith("_"))
    for name in sys.argv[1:] or known:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


main()

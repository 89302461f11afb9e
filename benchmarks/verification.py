"""What it costs that the judged cannot write the judge: a verified check beside one run of its command.

The project has 20 test files of 100 ms each, by pytest and by unittest. The commands run without a sandbox, whose cost
is in `sandbox`. Where no judge file changed, the command runs twice, once with a canary; where tests were added, four
times.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from treadle.receipts.trace import Check
from treadle.verification.checking import Checking
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import write_files
from treadle.workspace.store import Store

FILES, ROUNDS = 20, 5
TEST = "import time\nimport unittest\n\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test(self):\n"
TEST += "        time.sleep(0.1)\n        self.assertEqual(add(2, {n}), {n} + 2)\n"
BASE = {"calc.py": "def add(a, b):\n    return b + a\n", **{f"test_{n}.py": TEST.format(n=n) for n in range(FILES)}}
FIX = {"calc.py": "def add(a, b):\n    return a + b\n"}
CHANGES = {"no judge file changed": FIX, "a test file is added": {**FIX, "test_new.py": TEST.format(n=99)}}
COMMANDS = {"pytest": "-m pytest -q -p no:cacheprovider", "unittest": "-m unittest -q"}


def tree(store: Store, files: Mapping[str, str]) -> str:
    made = {path: TreeEntry(mode="100644", blob=store.put("blob", text.encode())) for path, text in files.items()}
    return store.put_files(made)


def measured(place: Path, command: str, change: Mapping[str, str]) -> tuple[float, float, str]:
    """The medians of one run of the command and of the verified check, and the word."""
    store, places, words = Store.make(str(place / "store")), count(), set[str]()

    async def run(found: str) -> Check:
        here = str(place / f"run-{next(places)}")
        write_files(store, store.files(found), here)
        done = await asyncio.to_thread(subprocess.run, command, shell=True, cwd=here, capture_output=True)
        return Check(command=command, exit_code=done.returncode, output_tail=(done.stdout + done.stderr).decode())

    base, work = tree(store, BASE), tree(store, {**BASE, **change})
    taken: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        begun = time.monotonic()
        asyncio.run(run(work))
        once = time.monotonic()
        words.add(asyncio.run(Checking(store, command, run).verify(base, work)).evidence.word)
        taken.append((once - begun, time.monotonic() - once))
    one, all_of_it = (statistics.median(each) for each in zip(*taken, strict=True))
    return one, all_of_it, " or ".join(words)


def main() -> None:
    for runner, words in COMMANDS.items():
        for name, change in CHANGES.items():
            with tempfile.TemporaryDirectory() as place:
                once, verified, word = measured(Path(place), f"{sys.executable} {words}", change)
            print(f"{runner}, {name} ({word}): {verified / once:.2f} x one run ({once:.2f} s)")

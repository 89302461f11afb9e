"""What people build and test with works in the sandbox by default: `make test-agents PART=programs`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside import OUTSIDE
from tests.safety import as_nobody
from treadle.io.paths import DISK
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import start
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement, Rules

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
OWN = "--no-sandbox" if os.geteuid() == 0 else ""
MANAGED = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        print(manager.list([42])[0])
"""
GO = 'package main\nimport "fmt"\nfunc main() { fmt.Println(6 * 7) }\n'
FILES = {
    "package.json": '{"scripts": {"test": "node -e \\"console.log(6 * 7)\\""}}',
    "test_it.py": "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_n(n): assert n < 42\n",
    "managed.py": MANAGED,
    "go.mod": "module x\n\ngo 1.19\n",
    "main.go": GO,
    "build.gradle": "task hello { doLast { println 6 * 7 } }\n",
    "settings.gradle": "rootProject.name = 'x'\n",
}
COMMANDS = {
    "npm": "npm test",
    "pytest": f"{sys.executable} -m pytest -q -p no:cacheprovider -n 2 test_it.py && echo 42",
    "python3": "python3 managed.py",
    "chromium": f"chromium --headless --disable-gpu {OWN} --dump-dom 'data:text/html,<p>42</p>' | grep -o 42",
    "cargo": "cargo init -q --name x rust && cd rust && echo 'fn main() { println!(\"{}\", 6 * 7) }' > src/main.rs "
    "&& cargo run -q --offline",
    "go": "GOFLAGS=-mod=mod GOPROXY=off go run .",
    "gradle": "gradle --offline --quiet hello",
}
DATABASE = """
initdb -D data -A trust > log 2>&1 || cat log
pg_ctl -D data -w -l log -o "-c listen_addresses='' -k $PWD" start > /dev/null
psql -h "$PWD" -U "$(id -un)" -d postgres -Atc "select 6 * 7"
pg_ctl -D data -w stop > /dev/null
"""


@pytest.mark.parametrize("program", COMMANDS)
async def test_a_program_works_in_the_sandbox_without_a_setting(program: str, tmp_path: Path) -> None:
    if shutil.which(program, path=OUTSIDE["PATH"]) is None:
        pytest.skip(f"needs {program}")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    made = Confining(str(tmp_path), (), Confinement(), session="programs")
    made.obey(RuleSet(Rules(), str(tmp_path), DISK), "full-auto")
    argv = ["bash", "-c", COMMANDS[program]]
    try:
        async with await start(made.for_command(), argv, cwd=str(tmp_path), env=OUTSIDE, stderr="stdout") as child:
            said = b""
            while data := await child.stdio.read():
                said += data
            code = await child.wait()
    finally:
        made.close()
    assert (code, said.decode().split()[-1:]) == (0, ["42"]), said.decode()[-3000:]


def test_postgresql_serves_on_a_unix_socket(tmp_path: Path) -> None:
    """Not as root, as which it refuses to run anywhere."""
    if shutil.which("initdb") is None or shutil.which("psql") is None:
        pytest.skip("needs PostgreSQL")
    with as_nobody.room() as base:
        argv = as_nobody.argv(Confinement(write=(str(base),), network="off"), DATABASE, base)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[-1:] == ["42"], done

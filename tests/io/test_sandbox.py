"""A real process confines itself, and then it and its children try to write."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.io import sandbox

PROGRAM = """
import json, os, subprocess, sys
from treadle.io import sandbox
work, outside, method = sys.argv[1:]
sandbox.enter(work, ["../added"], method=method or None)

def attempt(path):
    try:
        with open(path, "w") as file:
            file.write("x")
        return True
    except OSError:
        return False

detached = f"(setsid sh -c 'echo x > {work}/detached; echo x > {outside}/detached; echo > {work}/done' &)"
subprocess.run(["sh", "-c", detached], stderr=subprocess.DEVNULL)
while not os.path.exists(f"{work}/done"):
    pass
from treadle.io.process.tree import spawn
with spawn(["sh", "-c", f"echo x > {work}/kept; echo x > {outside}/kept"]) as tree:
    tree.wait(60)
master, slave = os.openpty()
state = os.environ["TREADLE_HOME"]
print(json.dumps({
    "method": sandbox.inside(),
    "work": attempt(f"{work}/a"),
    "added": attempt(f"{work}/../added/a"),
    "sessions": attempt(f"{state}/sessions/a"),
    "temp": attempt(os.environ["TMPDIR"] + "/a"),
    "null": attempt("/dev/null"),
    "outside": attempt(f"{outside}/a"),
    "trust": attempt(f"{state}/trust.json"),
    "home": attempt(os.path.expanduser("~/.bashrc")),
    "etc": attempt("/etc/treadle-test"),
    "link": attempt(f"{work}/link/a"),
    "read": os.path.exists(f"{outside}/there"),
}))
"""


def confined(tmp_path: Path, method: str) -> dict[str, Any]:
    for name in ("work", "added", "outside", "tmp", "home", "state"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "there").touch()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    env = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "TREADLE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "work"), str(tmp_path / "outside"), method],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise ConfigError(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("method", "problem"), [("landlock", sandbox._landlock_problem), ("bubblewrap", sandbox._bubblewrap_problem)]
)
def test_nothing_can_be_written_outside_by_anyone(tmp_path: Path, method: str, problem: Any) -> None:
    if problem() is not None:  # this machine cannot; then asking for it must fail and not run unconfined
        with pytest.raises(ConfigError):
            confined(tmp_path, method)
        return
    assert confined(tmp_path, method) == {
        "method": method,
        **dict.fromkeys(("work", "added", "sessions", "temp", "null", "read"), True),
        **dict.fromkeys(("outside", "trust", "home", "etc", "link"), False),
    }
    for name in ("detached", "kept"):
        assert (tmp_path / "work" / name).exists()
        assert not (tmp_path / "outside" / name).exists()


def test_the_best_method_there_is_gets_used(tmp_path: Path) -> None:
    found = sandbox.available()
    assert found.network == "not enforced"
    if found.method is None:  # this machine has neither; then nothing may run
        with pytest.raises(ConfigError, match="--sandbox cannot be kept"):
            confined(tmp_path, "")
        return
    assert confined(tmp_path, "")["method"] == found.method


def test_without_any_method_it_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['sandlock'] = None\n"
        "from treadle.errors import ConfigError\n"
        "from treadle.io import sandbox\n"
        "try: sandbox.enter('.')\n"
        "except ConfigError as error: print(error)\n"
        "else: print('ran unconfined')"
    )
    env = {**os.environ, "PATH": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert said.startswith("--sandbox cannot be kept on this machine: landlock: sandlock is not usable")
    assert "there is no program bwrap" in said and "run without --sandbox" in said


def test_the_exit_code_and_the_arguments_survive(tmp_path: Path) -> None:
    code = "import sys; from treadle.io import sandbox; sandbox.enter('.'); sys.exit(len(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "four"], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert done.returncode == (4 if sandbox.available().method else 1)

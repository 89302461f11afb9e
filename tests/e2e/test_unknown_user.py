"""A user whom the user database does not know, as in a container that is started with a number in place of a name."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tests.conftest import need
from tests.installed import TREADLE
from tests.scripts import calls, says

NUMBER = "54321"
WORK = ("--model", "scripted:model.toml")
COMMANDS = {
    "a prompt": ("-p", "write", "--permission-mode", "full-auto", *WORK),
    "an order": ("host", "run", "--task", "write", "--apply", *WORK),
    "the small demo": ("demo", "--one"),
}


def run(place: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run it as a user with that number alone, to whom our files still belong."""
    subprocess.run(["git", "init", "-q", place], check=True)
    script = calls("bash", {"command": "echo made > made.txt"}) + says("done", times="always")
    (place / "model.toml").write_text(script)
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "TREADLE_HOME")}
    command = [need("unshare"), "--user", f"--map-user={NUMBER}", f"--map-group={NUMBER}", TREADLE, *words]
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 100}
    done = subprocess.run(command, cwd=place, env=env | more, **streams)
    if done.stderr.startswith("unshare:"):
        pytest.skip(f"no user namespace here: {done.stderr.strip()}")
    return done


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_user_without_an_entry_works_like_any_other(words: tuple[str, ...], tmp_path: Path) -> None:
    home = pwd.getpwuid(os.geteuid()).pw_dir  # ours: Python itself may be installed there
    done = run(tmp_path, *words, HOME=home, TREADLE_HOME=f"{tmp_path}-state")
    assert done.returncode == 0, done.stdout + done.stderr
    assert words[0] == "demo" or (tmp_path / "made.txt").read_text() == "made\n"


def test_without_a_home_such_a_user_is_told_to_set_one(tmp_path: Path) -> None:
    done = run(tmp_path, *COMMANDS["a prompt"])
    told = f"treadle: HOME is not set, and user {NUMBER} has no other home directory (set HOME)\n"
    assert (done.returncode, done.stderr) == (1, told)

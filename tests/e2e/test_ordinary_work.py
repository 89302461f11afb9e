"""Two hundred commands of an ordinary day in full-auto: none is refused for its text, none misses anything of the home
directory or the environment without the line that shows it."""

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.ordinary import GROUPS, TOOLS, make
from tests.installed import TREADLE
from treadle.io.sandbox import methods

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap"),
]
ABSENT = ("is not in the sandbox", "is not passed into the sandbox")


def results(place: Path, commands: tuple[str, ...]) -> list[str]:
    """What the agent is told about each of the commands, of which each begins at the top."""
    replies = [
        f'[[reply]]\n[[reply.call]]\nname = "bash"\narguments = {{ command = {json.dumps(typed)} }}\n'
        for one in commands
        for typed in (one, f"cd {place}")
    ]
    script = place.parent / "script.toml"
    script.write_text("".join((*replies, '[[reply]]\ntext = "done"\n')))
    options = ("--permission-mode", "full-auto", "--sandbox", "--output-format", "stream-json", "--verbose")
    argv = [TREADLE, "-p", "go", "--model", f"scripted:{script}", *options]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines and lines[-1]["result"] == "done" and not lines[-1]["permission_denials"], done.stderr
    blocks = [block for line in lines if line["type"] == "user" for block in line["message"]["content"]]
    return [str(block["content"]) for block in blocks if block["type"] == "tool_result"][::2]


@pytest.mark.parametrize(
    "group", [pytest.param(each, marks=pytest.mark.long) if each in TOOLS else each for each in GROUPS]
)
def test_commands_of_a_day_run_in_the_sandbox_as_they_are(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := [tool for tool in TOOLS.get(group, ()) if shutil.which(tool) is None]:
        pytest.skip(f"there is no {lacking[0]}")
    rust = os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".rustup")  # HOME is one of the tests' own
    monkeypatch.setenv("RUSTUP_HOME", os.environ.get("RUSTUP_HOME", rust))
    Path(os.environ["HOME"], ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.com\n")
    place = tmp_path / "project"
    make(place)
    for arguments in (
        ["init", "-qb", "main"],
        ["add", "-A"],
        ["commit", "-qm", "first"],
        ["commit", "-q", "--allow-empty", "-m", "2"],
    ):
        subprocess.run(["git", *arguments], cwd=place, check=True)
    told = dict(zip(GROUPS[group], results(place, GROUPS[group]), strict=True))
    assert not [f"{one}: {text}" for one, text in told.items() if any(sign in text for sign in ABSENT)]
    assert not [f"{one}: {text}" for one, text in told.items() if "[exit code" in text and _is_here(one)]


def _is_here(command: str) -> bool:
    return shutil.which(command.split()[0]) is not None

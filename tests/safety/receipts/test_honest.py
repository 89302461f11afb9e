"""Honest work passes the default gate: thirty runs, over three ways to work and five policies, with none accused."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import need
from tests.installed import treadle
from tests.scripts import calls, says
from tests.tiers import spread
from tests.workspace.repositories import make

MODES = ("pass-through", "staged", "worktree")
POLICIES = (
    "",
    'deny_write = [".git/**"]\n',
    'deny_write = ["secrets/**"]\ndeny_read = [".env"]\n',
    'disallowed_tools = ["WebFetch"]\n',
    'deny_network = ["*"]\n',
)
COMMIT = "git add -A && git -c user.name=a -c user.email=a@b commit -qm work"
ACTS = (
    "echo more >> a.txt",
    "printf 'x\\n' > generated.txt && cat a.txt >> generated.txt",
    "sed -i 's/one/ONE/' a.txt",
    "git mv a.txt b.txt 2>/dev/null || mv a.txt b.txt; cp b.txt a.txt",
    "mkdir -p deep/er && echo x > deep/er/c.txt && chmod +x deep/er/c.txt",
    "echo cache > build.log; echo x > d.txt",
    "printf 'one\\r\\ntwo\\r\\n' > crlf.txt",
    "rm .gitignore; echo x > e.txt",
    f"echo x > f.txt; {COMMIT}",
    "ln -s a.txt link; echo x > g.txt",
)
RUNS = [(MODES[number % 3], POLICIES[number // 6], number % 10) for number in range(30)]


SETTINGS = '[verify]\ncheck = "test -e made"\nsetup = """\ntouch made\n"""\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trusted", "words", "code"),
    [
        (True, [], 0),
        (False, [], 15),
        (False, ["--setup", "touch made"], 0),
        (True, ["--setup", "touch made; true"], 18),
        (True, ["--root", "."], 15),
    ],
)
def test_the_set_up_of_the_base_and_no_other_passes_the_gate(
    tmp_path: Path, trusted: bool, words: list[str], code: int
) -> None:
    need("bwrap")
    treadle("receipt", "keygen")
    repository = make(tmp_path / "top")
    repository.git("remote", "add", "origin", "https://example.com/a/b.git")
    settings = tmp_path / "top" / ".treadle" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    assert treadle("receipt", "gate", "init", "--check", "test -e made", cwd=repository.top).returncode == 0
    repository.git("add", "-fA")
    repository.git("commit", "-qm", "gate")
    if "--root" in words:  # what is trusted is on the disk, and the base names another
        settings.write_text(SETTINGS.replace("touch made", "touch made; true"))
    if trusted:
        assert treadle("trust", cwd=repository.top).returncode == 0
    (tmp_path / "model.toml").write_text(calls("bash", {"command": "echo x > new"}) + says("Done.", times="always"))
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{tmp_path}/model.toml"}
    words = ["--agent", "native", "--workspace-mode", "worktree", "--sandbox", "--verify", "test -e made", *words]
    done = treadle("host", "run", "--task", "work", *words, "--json", cwd=repository.top, env=env)
    place = json.loads(done.stdout.splitlines()[-1])["usage_raw"]["treadle"]["observed"]["workspace"]
    treadle("receipt", "export", "latest", "--out", str(tmp_path / "run.jsonl"))
    words = [place["result_commit"] or "HEAD", "--target", "HEAD", "--receipt", str(tmp_path / "run.jsonl")]
    checked = treadle("receipt", "gate", "check", *words, cwd=repository.top)
    assert checked.returncode == code, done.stdout[-3000:] + done.stderr + checked.stdout
    assert ("treadle trust" in checked.stdout) is (code != 0)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "policy", "act"), spread(RUNS, quick=0, slow=8))
def test_honest_work_passes(tmp_path: Path, mode: str, policy: str, act: int) -> None:
    need("bwrap")
    public = treadle("receipt", "keygen").stdout.strip()
    repository = make(tmp_path / "top")
    if act == 0:
        (tmp_path / "top" / "a.txt").write_text("one\nnot committed\n")
    command = ACTS[act] if ".git" not in policy else ACTS[act].replace(COMMIT, "true").replace("git mv", "mv")
    (tmp_path / "model.toml").write_text(calls("bash", {"command": command}) + says("Done.", times="always"))
    (tmp_path / "policy.toml").write_text(policy)
    words = ["--agent", "native", "--workspace-mode", mode, "--sandbox", "--verify", "test -e a.txt", "--json"]
    words += ["--policy", str(tmp_path / "policy.toml")] if policy else []
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{tmp_path}/model.toml"}
    done = treadle("host", "run", "--task", "work", *words, cwd=repository.top, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    receipt = json.loads(done.stdout.splitlines()[-1])
    expected = "outcome=complete,confined=yes,sealed=yes,verified=yes,evidence=passed|proven|tested,agent=native"
    expected += ",unchanged=secrets"
    checked = treadle("receipt", "verify", "latest", "--key", public, "--expect", expected)
    assert checked.returncode == 0, checked.stdout
    seen = receipt["usage_raw"]["treadle"]["observed"]
    assert seen["end"]["message"] is None and not any("refs/treadle" in path for path in seen["hidden"])
    if mode == "pass-through" and COMMIT not in command:
        files = subprocess.run(["git", "status", "--porcelain"], cwd=repository.top, capture_output=True, text=True)
        assert files.stdout, "the work is there"

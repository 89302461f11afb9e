"""Honest work passes the default gate: 113 runs, over three ways to work and five policies, with none accused."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import need
from tests.installed import treadle
from tests.io.sandbox.rooms import shown_place
from tests.scripts import calls, says
from tests.tiers import spread
from tests.workspace.repositories import Repository, make

MODES = ("pass-through", "staged", "worktree")
POLICIES = (
    "",
    'deny_write = [".git/**"]\n',
    'deny_write = ["secrets/**"]\ndeny_read = [".env"]\n',
    'disallowed_tools = ["WebFetch"]\n',
    'deny_network = ["*"]\n',
)
COMMIT = "git add -A && git -c user.name=a -c user.email=a@b commit -qm work"
FORMATTER = "import glob\nfor name in glob.glob('*.py'):\n    text = open(name).read().split('\\n')\n"
FORMATTER += "    open(name, 'w').write('\\n'.join(line.rstrip() for line in text))\n"


class Work(NamedTuple):
    does: str
    """What the agent does."""
    before: str = ""
    """What a person has done and committed before."""
    dirty: str = ""
    """What a person has done and not committed."""
    retried: bool = False


WORKS = {
    "shell": Work("sed -i s/one/ONE/ a.txt; echo more >> a.txt"),
    "generator": Work("python3 -c 'print(1)' > made.txt; mkdir -p deep/er; cat a.txt made.txt > deep/er/c.txt"),
    "formatter": Work("python3 tools/format; echo cache > build.log", "printf 'x = 1  \\n' > x.py"),
    "commit": Work(f"echo x > new.txt; {COMMIT}"),
    "commits": Work(f"echo x > new.txt; {COMMIT}; echo y > new.txt; {COMMIT} --amend; echo z > more.txt"),
    "renames": Work("git mv a.txt b.txt || mv a.txt b.txt; cp b.txt a.txt; git mv d e || mv d e", "mkdir d; >d/x"),
    "submodule": Work("echo x >> a.txt; echo y > new.txt", "git submodule --quiet add $PWD/../other sub"),
    "submodule moved": Work(
        f"git update-index --cacheinfo 160000,$(git rev-parse HEAD),sub; echo y > new.txt; {COMMIT}",
        "git submodule --quiet add $PWD/../other sub",
    ),
    "lfs": Work("head -c 5000 /dev/zero > new.bin; echo x >> a.txt", "git lfs install --local; git lfs track '*.bin'"),
    "lfs files": Work(
        "rm old.bin; echo x > new.txt", "git lfs install --local; git lfs track '*.bin'; echo 1 >old.bin"
    ),
    "crlf": Work(r"printf 'one\r\ntwo\r\n' | tee a.txt > new.txt", "echo '* text eol=crlf' > .gitattributes"),
    "dirty": Work("echo x > new.txt", dirty="echo more >> a.txt; echo mine > untracked.txt"),
    "dirty index": Work("echo x >> a.txt", dirty="echo staged > b.txt; git add b.txt; echo more >> b.txt"),
    "kinds": Work("ln -s a.txt link; chmod +x a.txt; rm .gitignore; mkdir empty; touch -d 2020-01-01 a.txt"),
    "retry": Work("test -e AGAIN || kill -9 $PPID; echo x > new.txt", retried=True),
}
RUNS = [
    (mode, policy, work) for at, (mode, policy) in enumerate(product(MODES, POLICIES)) for work in [*WORKS][at % 2 :: 2]
]


def started(place: Path, work: Work) -> Repository:
    """A repository with a gate; requests go to its branch `target`."""
    make(place / "other")
    made = make(place / "top")
    made.git("remote", "add", "origin", "https://example.com/a/b.git")
    made.git("config", "protocol.file.allow", "always")
    Path(made.top, "tools").mkdir()
    Path(made.top, "tools", "format").write_text(FORMATTER)
    typed(made, work.before)
    done = treadle("receipt", "gate", "init", "--check", "test -e a.txt", cwd=made.top)
    assert done.returncode == 0, done.stderr
    typed(made, f"{COMMIT}; git branch target; git rm -rq --cached . && git reset -q --hard; {work.dirty}")
    return made


def typed(repository: Repository, script: str) -> None:
    """What a person types, with their own git."""
    env = {**os.environ, "GIT_ALLOW_PROTOCOL": "file"}
    done = subprocess.run(["bash", "-ec", script], cwd=repository.top, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def backend(place: Path, does: str, retried: bool) -> list[str]:
    if retried:
        sidecar = f"{sys.executable} -I -S {Path(__file__).with_name('attacker.py')}"
        return ["--task", json.dumps({"do": does}), "--sidecar", sidecar, "--retry", "9", "--best-effort-policy"]
    (place / "model.toml").write_text(calls("bash", {"command": does}) + says("Done.", times="always"))
    return ["--task", "work", "--agent", "native"]


@pytest.fixture
def again() -> Iterator[Path]:
    """A file that a sandbox shows, which is there when one attempt has ended: a retry begins with fresh files."""
    with tempfile.TemporaryDirectory(dir=shown_place()) as place:
        stores, file, ended = Path(os.environ["TREADLE_HOME"], "receipts"), Path(place, "again"), threading.Event()

        def look() -> None:
            while not any(stores.glob("*.json")) and not ended.wait(0.05):
                pass
            file.touch()

        looking = threading.Thread(target=look)
        looking.start()
        yield file
        ended.set()
        looking.join()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "policy", "name"), spread(RUNS, quick=0, slow=4))
def test_honest_work_passes(tmp_path: Path, again: Path, mode: str, policy: str, name: str) -> None:
    need("bwrap")
    need("git-lfs")
    work, public = WORKS[name], treadle("receipt", "keygen").stdout.strip()
    repository = started(tmp_path, work)
    (tmp_path / "policy.toml").write_text(policy)
    does = work.does if ".git" not in policy else work.does.replace(COMMIT, "true").replace("git mv", "mv")
    does = does.replace("AGAIN", str(again))
    words = ["--workspace-mode", mode, "--sandbox", "--verify", "test -e a.txt", "--json"]
    words += ["--policy", str(tmp_path / "policy.toml")] if policy else []
    words += ["--apply"] if mode == "staged" else []
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{tmp_path}/model.toml"}
    done = treadle("host", "run", *backend(tmp_path, does, work.retried), *words, cwd=repository.top, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])["usage_raw"]["treadle"]["observed"]
    assert work.retried is bool(seen["earlier_attempts"])
    assert seen["end"]["message"] is None and not any("refs/treadle" in path for path in seen["hidden"])
    expected = "outcome=complete,confined=yes,sealed=yes,verified=yes,evidence=passed|proven|tested"
    expected += "" if work.retried else ",unchanged=secrets,agent=native"
    checked = treadle("receipt", "verify", "latest", "--key", public, "--expect", expected)
    assert checked.returncode == 0, checked.stdout
    if work.dirty and mode != "worktree":
        return  # what the request would have of the person's own, no run has made
    if mode != "worktree":
        typed(repository, f"git checkout -q -B work; {COMMIT} || true")
    commit = seen["workspace"]["result_commit"] if mode == "worktree" else repository.commit()
    treadle("receipt", "export", "latest", "--out", f"{tmp_path}/run.jsonl")
    asked = ("gate", "check", commit, "--target", "target", "--receipt", f"{tmp_path}/run.jsonl")
    checked = treadle("receipt", *asked, cwd=repository.top)
    assert checked.returncode == 0, checked.stdout + json.dumps(seen)


SETTINGS = '[verify]\ncheck = "test -e made"\nsetup = """\ntouch made\n"""\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trusted", "words", "code"),
    spread(
        [
            (True, [], 0),
            (False, ["--setup", "touch made"], 0),
            (True, ["--setup", "touch made; true"], 18),
            (False, [], 15),
            (True, ["--root", "."], 15),
        ],
        quick=0,
        slow=2,
    ),
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

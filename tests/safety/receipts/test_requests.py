"""A request that attacks the gate of its branch is refused; the work of the run alone passes."""

import base64
import json
import os
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.conftest import need
from tests.installed import treadle
from tests.scripts import calls, says
from tests.workspace.repositories import Repository, make
from treadle.cli.receipt import receipt as command
from treadle.errors import TreadleError
from treadle.host import gate
from treadle.host.signing import Signer, load_signer
from treadle.host.store import ReceiptStore
from treadle.receipts.statement import envelope

ANOTHER = "550e8400-e29b-41d4-a716-446655440000"
Tree = dict[str, Any]


class Asked(NamedTuple):
    repository: Repository
    run_id: str
    commit: str
    lines: list[Tree]
    """The envelopes that were signed when the run ended."""

    def commit_of(self, script: str, *parents: str) -> str:
        """A commit on that of the run, or on these, of the files after the script."""
        self.repository.git("checkout", "-q", "--detach", self.commit)
        assert os.system(f"cd {self.repository.top} && {script}") == 0
        self.repository.git("add", "-Af")
        tree = self.repository.git("write-tree").strip()
        named = [word for parent in parents or (self.commit,) for word in ("-p", parent)]
        return self.repository.git("commit-tree", tree, *named, "-m", "x").strip()

    def spoiled(self, change: Callable[[Tree], object], signer: Signer | None = None) -> list[Tree]:
        """With each statement changed, its old signatures or new ones."""
        made = []
        for one in self.lines:
            stated = json.loads(base64.b64decode(one["payload"]))
            change(stated)
            payload = base64.b64encode(json.dumps(stated).encode()).decode()
            made.append(envelope(stated, signer.sign, signer.public_key) if signer else {**one, "payload": payload})
        return made

    def of_another_run(self, path: str, value: object) -> list[Tree]:
        """What the trusted key has signed of a run that is the same but for this."""
        found = ReceiptStore().get(self.run_id)
        tree = deepcopy(found.usage_raw)
        place, (*above, last) = tree["treadle"], path.split(".")
        for part in above:
            place = place[part]
        place[last] = value
        ended = str(value) if path == "ended" else found.meta.finished_at
        meta = replace(found.meta, run_id=ANOTHER, started_at=ended, finished_at=ended)
        store = ReceiptStore(tempfile.mkdtemp(dir=".."), signer=load_signer())
        run = store.register(ANOTHER, None, tree["treadle"]["observed"]["workspace"]["start_tree"], key_in_reach=False)
        store.add(replace(found, meta=meta, usage_raw=tree), run)
        return [*map(json.loads, Path(store.statements_path(ANOTHER)).read_text().splitlines())]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    need("bwrap")
    repository = make(tmp_path / "top")
    repository.git("remote", "add", "origin", "https://example.com/a/b.git")
    monkeypatch.chdir(repository.top)
    (tmp_path / "model.toml").write_text(calls("bash", {"command": "echo x > new.txt"}) + says("Done."))
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{tmp_path}/model.toml"}
    treadle("receipt", "keygen")
    assert treadle("receipt", "gate", "init", "--check", "true").returncode == 0
    repository.git("add", "-f", ".treadle")
    repository.git("commit", "-qm", "gate")
    words = ("--task", "x", "--agent", "native", "--sandbox", "--workspace-mode", "worktree", "--verify", "true")
    done = treadle("host", "run", *words, "--json", env=env)
    made = json.loads(done.stdout.splitlines()[-1])
    commit = made["usage_raw"]["treadle"]["observed"]["workspace"]["result_commit"]
    lines = treadle("receipt", "export", "latest").stdout.splitlines()
    return Asked(repository, made["meta"]["run_id"], commit, [*map(json.loads, lines)])


def checked(asked: Asked, commit: str, lines: list[Tree], target: str = "main") -> int:
    Path("../run.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    words = ["gate", "check", commit, "--target", target, "--receipt", "../run.jsonl"]
    done = CliRunner().invoke(command, words)
    assert done.exception is None or isinstance(done.exception, SystemExit | TreadleError), done.exc_info
    return done.exit_code


@pytest.mark.slow
def test_a_request_that_attacks_the_gate_is_refused(asked: Asked) -> None:
    stranger, own = Signer(b"o" * 32), load_signer()
    git, work, lines = asked.repository.git, asked.commit, asked.lines
    assert own is not None
    git("branch", "others", asked.commit_of(f"sed -i 's#{own.public_key}#{stranger.public_key}#' {gate.PATH}", "main"))
    git("checkout", "-qf", "main")
    Path(gate.PATH).write_text(Path(gate.PATH).read_text() + "own copy\n")  # of a request, in the files that CI has
    main, empty = git("rev-parse", "main").strip(), git("mktree").strip()

    def proven(stated: Tree) -> None:
        if stated["predicateType"] == "urn:treadle:receipt:1":
            stated["predicate"]["usage_raw"]["treadle"]["observed"]["check"]["evidence"]["word"] = "proven"

    changed = asked.commit_of(f"sed -i s/true/false/ {gate.PATH}")
    tree = git("rev-parse", f"{changed}^{{tree}}").strip()
    on_top, emptied = asked.commit_of("echo y > new.txt"), git("commit-tree", empty, "-p", work, "-m", "x").strip()
    side = git("commit-tree", f"{main}^{{tree}}", "-p", main, "-m", "x").strip()
    merged = git("commit-tree", f"{work}^{{tree}}", "-p", work, "-p", side, "-m", "x").strip()
    for branch, parent in (("squashed", main), ("reverted", None)):
        parent = parent or git("rev-parse", "squashed").strip()
        of = work if branch == "squashed" else main
        git("branch", branch, git("commit-tree", f"{of}^{{tree}}", "-p", parent, "-m", "x").strip())
    seen = "observed.check.command"
    rows: dict[str, tuple[int, int]] = {
        "the run's own": (0, checked(asked, work, lines)),
        "unsigned": (10, checked(asked, work, [{**one, "signatures": []} for one in lines])),
        "another signer": (10, checked(asked, work, asked.spoiled(lambda _: None, stranger))),
        "a key of this machine, which is not the gate's": (10, checked(asked, work, lines, "others")),
        "a member more": (
            1,
            checked(asked, work, asked.spoiled(lambda one: one["predicate"].update(approved="x"), own)),
        ),
        "forged evidence": (1, checked(asked, work, asked.spoiled(proven))),
        "forged evidence in an old export": (1, checked(asked, work, asked.spoiled(proven, own))),
        "a statement twice": (1, checked(asked, work, [*lines, lines[0]])),
        "no receipt": (11, checked(asked, work, lines[:1])),
        "another repository": (11, checked(asked, work, asked.of_another_run("observed.workspace.repository", "x"))),
        "another base": (12, checked(asked, work, asked.of_another_run("observed.workspace.base_commit", empty))),
        "another check": (18, checked(asked, work, asked.of_another_run(seen, "true || true"))),
        "another set-up": (18, checked(asked, work, asked.of_another_run("observed.check.setup", "touch x"))),
        "old": (22, checked(asked, work, asked.of_another_run("ended", "2020-01-01T00:00:00Z"))),
        "more on top": (20, checked(asked, on_top, lines)),
        "an empty tree": (20, checked(asked, emptied, lines)),
        "a merge": (20, checked(asked, merged, lines)),
        "landed before": (23, checked(asked, work, lines, "squashed")),
        "landed before and reverted": (23, checked(asked, work, lines, "reverted")),
        "another gate": (21, checked(asked, changed, asked.of_another_run("observed.workspace.result_tree", tree))),
    }
    assert {name: code for name, (code, _) in rows.items()} == {name: code for name, (_, code) in rows.items()}

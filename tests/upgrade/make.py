"""Makes the archives of this directory, with the commands of the version that `earlier.py` names:

    python -m tests.upgrade.make [AREA ...]

An archive is one area: a home and a project, as a person's machine has them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import tomlkit

from tests.terminal.support import until
from tests.upgrade.earlier import Earlier

HERE = Path(__file__).parent
NAMED = ".made-at"
"""In each archive: the directory that it was made in, which texts in it name."""


class Making:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.version = Earlier(place)
        self.env, self.home, self.run = self.version.env, self.version.home, self.version.run
        self.state = self.home / "treadle"
        self.project = place / "project"
        self.project.mkdir()
        (self.home / ".gitconfig").write_text(
            "[user]\nname = t\nemail = t@example.invalid\n[init]\ndefaultBranch = main\n"
        )
        (self.project / "a.txt").write_text("one\n")
        for words in ("init -q", "add .", "commit -qm begin"):
            self.typed(f"git {words}")

    def typed(self, line: str, **more: Any) -> str:
        """A line typed in the project."""
        return self.run("bash", "-ec", line, **{"cwd": self.project, **more})

    def model(self, *replies: dict[str, Any]) -> None:
        """What the scripted model says from now on."""
        self.env["TREADLE_MODEL"] = scripted(self.place, *replies)

    def killed(self, when: Path, *argv: str) -> None:
        """Start it, and kill it as soon as the file is there."""
        with self.version.start(*argv, cwd=self.project) as started:
            until(when.exists)
            os.kill(started.pid, signal.SIGKILL)
            started.wait(60)

    def python(self, code: str, code_of_ending: int = 0) -> None:
        self.run("python", "-c", code, cwd=self.project, code=code_of_ending)


def scripted(place: Path, *replies: dict[str, Any]) -> str:
    """A model that says this, and is done."""
    path = place / "model.toml"
    path.write_text(tomlkit.dumps({"reply": [*replies, {"text": "Done.", "times": "always"}]}))
    return f"scripted:{path}"


def writes(path: str, content: str, **more: Any) -> dict[str, Any]:
    call = {"name": "write_file", "arguments": {"file_path": path, "content": content}}
    return {"text": "I write.", "call": [call], **more}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"text": "I run.", "call": [{"name": "bash", "arguments": {"command": command}}], **more}


def sessions(at: Making) -> None:
    """Conversations, a detached group, a killed session's git, settings, trust, figures of models, tokens."""
    (at.project / ".treadle").mkdir()
    (at.project / ".treadle/config.toml").write_text("[permissions]\ndeny = ['Bash(rm:*)']\n")
    at.typed("treadle trust")
    (at.state / "config.toml").write_text("[permissions]\nallow = ['Read']\n")
    at.model(writes("b.txt", "two\n", turn=1, when="Write b"), {"text": "It says two.", "when": "What does"})
    said = at.typed(
        "treadle -p 'Write b.txt.' --permission-mode full-auto --output-format json --session-id " + SESSION
    )
    assert json.loads(said)["session_id"] == SESSION
    at.typed(f"treadle -p 'What does b.txt say?' --resume {SESSION}")
    plain = {"cwd": at.home}  # a session in a repository is watched by its own process
    at.typed('treadle -p \'/agent parallel --detach api:"Say api." tests:"Say tests."\'', **plain)
    until(lambda: "completed" in at.typed("treadle -p '/agent list'", **plain))
    at.python(MODELS)
    at.typed("treadle serve --token")
    at.typed("git add . && git commit -qm b")
    at.model(
        bash("echo made > made.txt && git add made.txt && git commit -qm made && touch ready && sleep 600", turn=1)
    )
    argv = ("treadle", "-p", "Commit.", "--permission-mode", "full-auto", "--sandbox")
    at.killed(at.project / "ready", *argv)


SESSION = "5f0c2d6e-4d5c-4a58-9a3e-0c7f4f1a2b3c"
MODELS = """
from treadle.agent.providers import known
figures = known.Figures(window=123456)
known.keep(known.Refreshed(at="2026-01-01T00:00:00Z", source="https://example.invalid", models={"some/model": figures}))
"""


def receipts(at: Making) -> None:
    """Signed receipts, an exported one, a killed run."""
    at.typed("treadle receipt keygen")
    at.model(writes("b.txt", "two\n", turn=1))
    for task in ("Write b.txt.", "Write b.txt again."):
        at.typed(f"treadle host run --task '{task}' --agent native --workspace-mode staged", code=None)
    (latest,) = json.loads(at.typed("treadle receipt list --json"))[:1]
    at.typed(f"treadle receipt export {latest['run_id']} --out ../exported.json")
    at.model(writes("c.txt", "three\n", turn=1), {"text": "Later.", "delay": 600, "turn": 2})
    argv = ("treadle", "host", "run", "--task", "Wait.", "--agent", "native")
    with at.version.start(*argv, cwd=at.project) as started:
        until(lambda: list(at.state.glob("host/*/workspace/**/c.txt")))
        os.kill(started.pid, signal.SIGKILL)
        started.wait(60)


def workspaces(at: Making) -> None:
    """Files and a branch that were being changed when the power failed: no command can be stopped just there."""
    at.python(JOURNAL)
    at.python(BRANCH, code_of_ending=9)


JOURNAL = """
import os
from treadle.workspace import journal
def put(place):
    with open(place, "w") as file:
        file.write("changed\\n")
place = os.environ["TREADLE_HOME"]
os.makedirs(place)
journal.stage(os.path.join(place, "apply.json"), os.getcwd(), {"a.txt": put, "new.txt": put}, [])
"""
BRANCH = """
import os
from treadle.workspace import branch_moves
from treadle.workspace.changes import TreeEntry
from treadle.workspace.checkouts import around
from treadle.workspace.store import Store, lending
user = around(os.getcwd())
store = Store.make(os.path.join(os.environ["TREADLE_HOME"], "store"), **lending(user))
old = branch_moves.tip(user, "refs/heads/main")
_, files = store.borrow_tree(old)
tree = store.put_files({**files, "moved.txt": TreeEntry(mode="100644", blob=store.put("blob", b"x\\n"))})
branch_moves._settle = lambda *_: os._exit(9)  # the branch has moved, its checkout has not
branch_moves.move(user, "refs/heads/main", store, old, store.loose_commit(tree, [old]), "test")
"""


def terminals(at: Making) -> None:
    """One that has ended, and the files of one that lives."""
    at.typed("treadle run --detach --id ended -- sh -c 'echo hello; exit 3'")
    at.typed("treadle wait ended --exit", code=None)
    at.typed("treadle run --detach --id alive -- cat")
    at.typed("treadle send alive hello")
    until(lambda: "hello" in at.typed("treadle tail alive"))
    until(list((at.state / "terminals").glob("alive.summary*")).copy)
    shutil.copytree(at.state, at.home / "kept", ignore=lambda place, names: {n for n in names if n.endswith(".sock")})
    at.typed("treadle kill alive")
    shutil.rmtree(at.state)
    (at.home / "kept").rename(at.state)


def coordination(at: Making) -> None:
    """Claims, their index, identities, messages, the ledger, what is shared in `.planning`; hooks of git and agents."""
    at.typed("heimdall-protocol init")
    at.typed(
        "heimdall-haid register --role worker; heimdall-resolve set pay src/pay.py; heimdall-blackboard set port 8080"
    )
    at.typed("heimdall-capsule write t1 --what 'paid' --where src/pay.py --decision 'by card'")
    at.typed("heimdall-ledger log --role worker --kind brief --tokens 500")
    at.typed("treadle coord message ask 'Which port?'", code=None)
    at.typed("heimdall-claim claim 'src/**' --task 'the shop' --ttl 525600")
    at.python(CLAIMS)
    for name in ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor"):
        at.typed(f"treadle coord setup {name}")
    assert (at.project / ".git/hooks/pre-commit").exists()


CLAIMS = """
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
claims = Claims(Planning())
for number in range(210):
    claims.claim(f"haid:other.elsewhere-{number:04x}", [f"other/{number}/**"], task="more", ttl_minutes=525600)
"""


def fleet(at: Making) -> None:
    """A fleet with a goal that was carried out and landed, orders, a receipt, a budget, an invitation, its index."""
    plan = {
        "done": "test -f rows.csv",
        "verify": "true",
        "orders": [{"id": "rows", "task": "Write rows.csv.", "claims": ["rows.csv"], "accept": ["test -f rows.csv"]}],
    }
    at.model(
        {"text": "Accepted.", "when": "Accepted", "times": "always"},
        gives({"met": True, "why": "rows.csv is there"}, when="You judge whether", turn=1),
        gives(plan, when="You plan the work", turn=1),
        writes("rows.csv", "a,b", when="Write rows.csv", turn=1),
        writes("c.txt", "three\n", when="Write c.txt", turn=1),
        bash("install -m 755 /dev/null made.sh", when="Make it", turn=1),
    )
    (at.project / "issue.md").write_text("Orders can be exported as CSV.\n")
    at.typed("treadle fleet up --name here")
    try:
        _carry_out(at)
    finally:
        at.typed("treadle fleet down", code=None)


def gives(answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"text": "So.", "call": [{"name": "give_answer", "arguments": answer}], **more}


def _carry_out(at: Making) -> None:
    at.typed("treadle goal plan --from issue.md --tokens 2000000 --hours 3")
    at.typed("treadle goal run goal.toml --detach")
    until(lambda: json.loads(at.typed("treadle fleet approvals --json")))
    (asked,) = json.loads(at.typed("treadle fleet approvals --json"))
    at.typed(f"treadle fleet answer {asked['order']} allow")
    until(lambda: json.loads(at.typed("treadle goal ls --json"))[0].get("state") == "met")
    done = at.typed("treadle fleet submit 'Write c.txt.' --root . --mode auto-edit --json", stderr=subprocess.DEVNULL)
    at.typed(f"treadle fleet wait {json.loads(done)[0]['id']}")
    at.typed("treadle fleet submit 'Make it.' --root . --mode auto-edit --json")
    until(lambda: json.loads(at.typed("treadle fleet approvals --json")))
    at.typed("treadle fleet budget fleet --max-usd 5; treadle fleet search rows")
    at.typed("treadle fleet invite other --json > ../invitation.json")


AREAS = (sessions, receipts, workspaces, terminals, coordination, fleet)


def pack(at: Making, name: str) -> None:
    for left in (at.place / "program", at.state / "view", at.state / "warm"):
        shutil.rmtree(left, ignore_errors=True)
    (at.place / NAMED).write_text(str(at.place))
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        archive.add(at.place, ".", filter=_nobodys)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    for area in AREAS:
        if not sys.argv[1:] or area.__name__ in sys.argv[1:]:
            with tempfile.TemporaryDirectory(prefix="treadle-", dir="/tmp") as place:
                at = Making(Path(place))
                area(at)
                pack(at, area.__name__)
            print(area.__name__, os.path.getsize(HERE / f"{area.__name__}.tar.xz"))


if __name__ == "__main__":
    main()

"""What 0.2.0 has stored is read: `make.py` has written it with real commands, each area in an archive."""

import ast
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.conftest import need
from tests.terminal.support import until
from tests.upgrade.earlier import ROOT, belonging, end_all
from tests.upgrade.make import HERE, SESSION
from tests.upgrade.unpacked import Unpacked
from treadle.fleet.engine import server
from treadle.workspace import branch_moves, journal
from treadle.workspace.checkouts import around

FORMATS = {
    "agent.detached": ("sessions", "home/treadle/tasks/*/plan.json"),
    "agent.providers.known": ("sessions", "home/treadle/models.json"),
    "agent.transcript": ("sessions", "home/treadle/sessions/*/history.jsonl"),
    "fleet.control": ("fleet", "home/treadle/fleet/engine/js/*/KV_fleet/msgs/*.blk"),
    "fleet.engine.layout": ("fleet", "home/treadle/fleet/engine/js/*/KV_fleet/meta.inf"),
    "fleet.engine.places": ("fleet", "home/treadle/fleet/fleet.json"),
    "serve.order_index": ("fleet", "home/treadle/fleet/index.sqlite"),
    "fleet.join.invitations": ("fleet", "invitation.json"),
    "fleet.node": ("fleet", "home/treadle/fleet/nodes/here/node.json"),
    "fleet.run.resumption": ("fleet", "home/treadle/fleet/runs/*/state.json"),
    "fleet.run.runs": ("fleet", "home/treadle/fleet/runs/*/job.json"),
    "host.job": ("receipts", "home/treadle/host/*/run.json"),
    "host.store": ("receipts", "home/treadle/receipts/chain.jsonl"),
    "io.process.registry": ("terminals", "home/treadle/keepers/*"),
    "receipts.trace": ("receipts", "home/treadle/receipts/*-*.json"),
    "serve.tokens": ("sessions", "home/treadle/web/tokens.json"),
    "settings.trust": ("sessions", "home/treadle/trust.json"),
    "terminal.history": ("terminals", "home/treadle/terminals/alive.summary"),
    "wire.fleet.messages": ("fleet", "home/treadle/fleet/engine/js/*/KV_fleet/msgs/*.blk"),
    "wire.fleet.orders": ("fleet", "home/treadle/fleet/engine/js/*/KV_fleet/msgs/*.blk"),
    "wire.fleet.train": ("fleet", "home/treadle/fleet/engine/js/*/KV_fleet/msgs/*.blk"),
    "wire.goal.plan": ("fleet", "project/goal.toml"),
    "wire.goal.records": ("fleet", "home/treadle/fleet/engine/js/*/KV_fleet/msgs/*.blk"),
    "workspace.branch_moves": ("workspaces", "home/treadle/branch-moves/*/*.json"),
    "workspace.in_place": ("sessions", "home/treadle/git/*/0/place.json"),
    "workspace.journal": ("workspaces", "home/treadle/apply.json"),
    "workspace.workspace": ("receipts", "home/treadle/host/*/workspace.json"),
    "workspace.store": ("workspaces", "home/treadle/store/store.json"),
    "workspace.takeover": ("sessions", "home/treadle/git/*/0/base"),
}
"""The module that declares a format -> the archive and the files in it that are written in this format."""
NEWER = {
    "coordination.record",
    "gateway.recording",
    "host.evidence",
    "host.gate",
    "sessions.handover",
}
"""What 0.2.0 did not store."""

At = Callable[[str], Unpacked]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    yield lambda area: Unpacked(area, tmp_path / area)
    end_all(tmp_path)


def declaring() -> set[str]:
    """Modules with a constant `FORMAT`, or `SOMETHING_FORMAT`, that is a number."""
    found = set()
    for path in (ROOT / "src/treadle").rglob("*.py"):
        for line in ast.parse(path.read_bytes()).body:
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
                names = [name.id for name in line.targets if isinstance(name, ast.Name)]
                if line.value.value not in (None, "") and any(name.split("_")[-1] == "FORMAT" for name in names):
                    if str(line.value.value).strip("b'").isdecimal():
                        found.add(".".join(path.relative_to(ROOT / "src/treadle").with_suffix("").parts))
    return found


@pytest.mark.slow
def test_every_format_is_in_an_archive() -> None:
    assert declaring() - {*FORMATS} == NEWER, "have make.py write it, and add a row"
    names = {area: tarfile.open(HERE / f"{area}.tar.xz").getnames() for area, _ in FORMATS.values()}
    lacking = [row for row in FORMATS.values() if not any(fnmatch(name, f"./{row[1]}") for name in names[row[0]])]
    assert lacking == []


def test_sessions_are_listed_and_resumed_with_all_that_was_said(at: At) -> None:
    kept = at("sessions")
    rows = json.loads(kept.typed("treadle sessions --json"))
    assert SESSION in {row["id"] for row in rows} and len(rows) > 1
    shown = kept.typed(f"treadle sessions show {SESSION}")
    assert "Write b.txt." in shown and "What does b.txt say?" in shown
    model = f"--model scripted:{kept.place}/model.toml --output-format json"
    kept.env["TREADLE_MODEL"] = ""
    said = json.loads(kept.typed(f"treadle -p 'And now?' --resume {SESSION} {model}"))
    assert (said["session_id"], said["result"]) == (SESSION, "Done.")
    assert "And now?" in kept.typed(f"treadle sessions show {SESSION}")


def test_settings_trust_figures_tokens_and_tasks_are_read(at: At) -> None:
    kept = at("sessions")
    assert kept.typed("treadle trust --list").split()[-1] == str(kept.project)
    (device,) = [line for line in kept.typed("treadle serve --devices").splitlines()[1:] if line]
    assert "script" in device
    plain = f"--model scripted:{kept.place}/model.toml"
    listed = kept.typed(f"cd ..; treadle -p '/agent list' {plain}")
    assert listed.count("completed") >= 2, listed
    code = "from treadle.agent.providers import known; print(known.window('some/model'))"
    assert kept.typed(f'python -c "{code}"') == "123456\n"


@pytest.mark.slow
def test_what_a_killed_session_left_in_its_git_is_taken_over(at: At) -> None:
    need("bwrap")
    kept = at("sessions")
    (left,) = json.loads(kept.typed("treadle gc git --dry-run --json"))
    said = kept.typed(f"treadle git adopt {left['name']}")
    assert "made" in kept.typed("git log --all --format=%s"), said
    assert json.loads(kept.typed("treadle gc git --dry-run --json")) == []


@pytest.mark.slow
def test_receipts_are_listed_and_their_signatures_hold(at: At) -> None:
    kept = at("receipts")
    rows = json.loads(kept.typed("treadle receipt list --json"))
    assert len(rows) == 2
    key = kept.typed("treadle receipt key").strip()
    for row in rows:
        kept.typed(f"treadle receipt verify {row['run_id']} --key {key}")
        assert "Write b.txt" in kept.typed(f"treadle receipt order {row['run_id']}")
    kept.typed(f"treadle receipt verify --chain --key {key}")
    kept.typed(f"treadle receipt verify ../exported.json --key {key}")
    receipt = next(kept.state.glob("receipts/*-*.json"))
    receipt.write_text(receipt.read_text().replace("b.txt", "z.txt"))
    kept.typed("treadle receipt verify --chain", code=1)


@pytest.mark.slow
def test_a_killed_run_is_recovered_into_a_receipt(at: At) -> None:
    kept = at("receipts")
    said = kept.typed("treadle host recover")
    rows = json.loads(kept.typed("treadle receipt list --json"))
    assert len(rows) == 3, said
    kept.typed("treadle receipt verify --chain")
    assert len(json.loads(kept.typed("treadle gc runs --dry-run --json"))) >= 2


def test_files_and_a_branch_that_were_being_changed_are_settled(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = at("workspaces")
    monkeypatch.setenv("TREADLE_HOME", str(kept.state))
    assert journal.settle(str(kept.state / "apply.json")) == "finished"
    assert [(kept.project / name).read_text() for name in ("a.txt", "new.txt")] == ["changed\n", "changed\n"]
    user = around(str(kept.project))
    (made,) = kept.state.glob("branch-moves/*")
    branch_moves.recover(user)  # which makes the directory of the repository at this path
    (ours,) = {*kept.state.glob("branch-moves/*")} - {made}
    for path in made.iterdir():
        path.rename(ours / path.name)
    for path in ours.iterdir():
        if path.is_file():
            path.write_text(path.read_text().replace(made.name, ours.name))
    branch_moves.recover(user)
    assert (kept.project / "moved.txt").read_text() == "x\n" and not list(ours.iterdir())
    assert kept.typed("git status --porcelain").split() == ["M", "a.txt", "??", "new.txt"]


def test_terminals_are_listed_and_their_output_is_shown(at: At) -> None:
    kept = at("terminals")
    rows = {row["id"]: row for row in json.loads(kept.typed("treadle ls --all --json"))}
    assert not rows["ended"]["alive"]
    assert "hello" in kept.typed("treadle tail ended") and "hello" in kept.typed("treadle tail alive")
    kept.typed("treadle wait ended --exit", code=3)
    assert json.loads(kept.typed("treadle ps --json")) == []
    for path in (kept.place / "home" / "treadle" / "terminals").iterdir():
        os.utime(path, (0, 0))  # unpacking has rewritten some just now
    kept.typed("treadle clean --older-than 1s --force")
    assert json.loads(kept.typed("treadle ls --all --json")) == []


def test_claims_the_ledger_and_what_is_shared_are_read(at: At) -> None:
    kept = at("coordination")
    kept.still_hold()
    claims = json.loads(kept.typed("heimdall-claim list --json"))
    assert len(claims) == 211
    assert "the shop" in kept.typed("heimdall-claim list")
    kept.typed("heimdall-claim check other/7/x.py", code=3)
    assert "500" in kept.typed("heimdall-ledger report")
    assert kept.typed("heimdall-resolve pay").strip() == "src/pay.py"
    assert kept.typed("heimdall-blackboard get port").strip() == "8080"
    assert "by card" in kept.typed("heimdall-capsule show t1")
    assert "worker" in kept.typed("heimdall-haid list")


CALLS = {
    "claude": {"tool_name": "Write", "tool_input": {"file_path": "other/7/x.py", "content": "x"}},
    "codex": {
        "tool_name": "apply_patch",
        "tool_input": {"command": "*** Begin Patch\n*** Add File: other/7/x.py\n+x\n*** End Patch\n"},
    },
    "gemini": {"tool_name": "write_file", "tool_input": {"file_path": "other/7/x.py", "content": "x"}},
    "qwen": {"tool_name": "write_file", "tool_input": {"file_path": "other/7/x.py", "content": "x"}},
    "copilot": {"tool_name": "create", "tool_input": {"path": "other/7/x.py", "file_text": "x"}},
    "cursor": {"tool_name": "Write", "tool_input": {"file_path": "other/7/x.py", "content": "x"}},
}
FILES = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".github/hooks/treadle.json",
    "cursor": ".cursor/hooks.json",
}


def commands(entry: object) -> list[str]:
    """Every command in a file of hooks."""
    if isinstance(entry, dict):
        own = [entry["command"]] if "coord hook" in str(entry.get("command", "")) else []
        return own + [one for value in entry.values() for one in commands(value)]
    return [one for value in entry for one in commands(value)] if isinstance(entry, list) else []


@pytest.mark.slow
def test_installed_hooks_still_refuse_what_others_hold(at: At) -> None:
    kept = at("coordination")
    kept.still_hold()
    (kept.project / "other/7").mkdir(parents=True)
    (kept.project / "other/7/x.py").write_text("x\n")
    said = kept.typed("git add other && git commit -qm mine", code=1)
    assert "COLLISION" in said and "haid:other.elsewhere-0007" in said
    for name, call in CALLS.items():
        (command,) = commands(json.loads((kept.project / FILES[name]).read_text()))
        payload = {"session_id": "s1", "cwd": str(kept.project), "hook_event_name": "PreToolUse", **call}
        kept.env["PAYLOAD"] = json.dumps(payload)
        said = kept.typed(f'printf %s "$PAYLOAD" | {command}', code=None)
        assert "haid:other.elsewhere-0007" in said, f"{name}: {said}"
    assert (
        'spawnSync(TREADLE, ["coord", "hook", "opencode"]' in (kept.project / ".opencode/plugin/treadle.js").read_text()
    )
    kept.typed("heimdall-claim guard uninstall && git commit -qm mine")


@pytest.mark.slow
def test_a_fleet_comes_up_on_its_store_with_all_its_orders(at: At) -> None:
    kept = at("fleet")
    path = kept.state / "fleet/fleet.json"
    fleet = json.loads(path.read_text())
    path.write_text(json.dumps({**fleet, "url": f"nats://127.0.0.1:{server.free_port()}"}))
    kept.typed("treadle fleet up --name here")
    orders = json.loads(kept.typed("treadle fleet ls --json"))
    states = {order["title"]: order["state"] for order in orders}
    assert states["Write c.txt."] == "done", states
    (done,) = [order["id"] for order in orders if order["title"] == "Write c.txt."]
    assert "c.txt" in kept.typed(f"treadle fleet diff {done}")
    assert json.loads(kept.typed(f"treadle fleet receipt {done} --json"))["outcome"] == "complete"
    assert "I write." in kept.typed(f"treadle fleet logs {done}")
    (goal,) = json.loads(kept.typed("treadle goal ls --json"))
    assert goal["state"] == "met" and "rows" in kept.typed(f"treadle goal report {goal['id']}")
    assert "main" in kept.typed("treadle land ls") and "rows" in kept.typed("treadle blame rows.csv:1")
    assert "5.0" in kept.typed("treadle fleet budget fleet --json")
    kept.typed("treadle receipt verify --chain")
    code = json.loads((kept.place / "invitation.json").read_text())["code"]
    assert "this machine belongs to the fleet" in kept.typed(f"treadle fleet join {code}", code=1)
    kept.typed("treadle goal check goal.toml")
    kept.typed("treadle fleet down")
    until(lambda: not belonging(kept.place), "the end of all its processes")

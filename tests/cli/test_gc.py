"""`treadle gc`: what is stored too long goes, what is used or has work in it stays."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from treadle.agent.detached import PLAN, Plan
from treadle.agent.transcript import Transcript, history_of
from treadle.cli.gc import KINDS, gc
from treadle.errors import TreadleError
from treadle.gateway.recording import RUN, RecordedRun
from treadle.host.job import runs_directory
from treadle.io import files
from treadle.io.paths import state_dir
from treadle.terminal import lock
from treadle.terminal.places import default_directory
from treadle.workspace.workspace import STORE

DAY = 86400


def typed(*words: str, code: int = 0) -> list[dict[str, Any]]:
    done = CliRunner().invoke(gc, [*words, "--json"])
    if isinstance(done.exception, TreadleError):
        raise done.exception
    assert done.exit_code == code, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def names(rows: list[dict[str, Any]], state: str) -> list[str]:
    return [f"{row['kind']}:{row['name']}" for row in rows if row["state"] == state]


def aged(path: Path | str, days: float) -> None:
    os.utime(path, (time.time() - days * DAY,) * 2)


def made(folder: str, *parts: str) -> Path:
    path = Path(folder, *parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    return path


@pytest.fixture
def stored(state_home: Path) -> Iterator[None]:
    """Of each kind something of forty days and something young."""
    for days, name in ((40, "old"), (0, "young")):
        Transcript.create(cwd="/x", model="m", session_id=name).close()
        aged(history_of(name), days)
        aged(made(default_directory(), f"{name}.exit"), days)
        aged(made(runs_directory(), name, "patch.diff").parent, days)
        aged(made(state_dir(), "evidence", f"{name}.json"), days * 3)
        run = RecordedRun(id=name, agent="a", cwd="/x", at=time.time() - days * DAY)
        RUN.save(str(made(state_dir(), "recordings", name, "run.json")), run)
        aged(made(state_dir(), "pasted", name), days)
        aged(made(state_dir(), "removed", name, "x").parent, days)
        for tail in ("0a1b2c3d", "0a1b2c"):  # an agent's and a terminal's, which its record leads to
            aged(made(state_dir(), "worktrees", f"{name}-{tail}", "x").parent, days)
        plan = Plan(group=f"group_{name}", parent_session="s", created=time.time() - days * DAY, members=(), cwd="/x")
        PLAN.save(str(made(state_dir(), "tasks", name, "plan.json")), plan)
    yield


@pytest.mark.usefixtures("stored")
def test_what_is_older_than_its_limit_goes_and_what_has_none_stays() -> None:
    would = typed("--dry-run")
    old = ["terminals:old", "worktrees:old-0a1b2c3d", "tasks:group_old", "removed:old", "pasted:old"]
    old += ["runs:old", "evidence:old"]
    assert names(would, "would go") == old and len(names(would, "kept")) == 11
    assert {row["why"] for row in would if row["name"] == "old"} == {"", "no limit: name it, or give --older-than"}
    assert names(typed(), "removed") == old and names(typed("--dry-run"), "would go") == []
    assert names(typed("sessions", "recordings", "--older-than", "30d"), "removed") == [
        "sessions:old",
        "recordings:old",
    ]
    assert {row["name"] for row in typed("--dry-run")} == {"young", "young-0a1b2c3d", "group_young"}
    assert sorted(os.listdir(Path(state_dir(), "worktrees"))) == ["old-0a1b2c", "young-0a1b2c", "young-0a1b2c3d"]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("kind", "name", "lock"),
    [
        ("worktrees", "old-0a1b2c3d", "worktrees/old-0a1b2c3d/lock"),
        ("tasks", "group_old", "tasks/old/lock"),
        ("removed", "old", "sessions/old/lock"),
    ],
)
def test_what_an_agent_at_work_has_is_not_removed_by_age_nor_by_name(kind: str, name: str, lock: str) -> None:
    with files.locked(os.path.join(state_dir(), lock)):
        [row] = [row for row in typed(kind, "--older-than", "30d", "--dry-run") if row["name"] == name]
        assert (row["state"], row["why"].partition(";")[0]) == ("kept", "open in another process")
        assert names(typed(f"{kind}:{name}", code=1), "failed") == [f"{kind}:{name}"]
    assert names(typed(f"{kind}:{name}"), "removed") == [f"{kind}:{name}"]


def test_an_agents_worktree_whose_work_is_in_no_branch_stays(state_home: Path) -> None:
    for inside in ("lock", f"{STORE}/HEAD"):
        place = made(state_dir(), "worktrees", "a-0a1b2c3d", inside)
        for path in (place, place.parent, place.parent.parent):
            aged(path, 40)
        aged(Path(state_dir(), "worktrees", "a-0a1b2c3d"), 40)
        [row] = typed("worktrees", "--dry-run")
        assert row["state"] == "kept" and ("it was killed" if inside == "lock" else "not all of it") in row["why"]
        place.unlink()


@pytest.mark.usefixtures("stored")
def test_what_is_named_goes_whatever_its_age_by_one_beginning_alone() -> None:
    made(runs_directory(), "yonder", "patch.diff")
    for word, told in (
        ("runs:yo", "2 of the runs that can be removed begin with 'yo'"),
        ("runs:x", "0 of the runs"),
        ("nothing", "there is no kind 'nothing'"),
    ):
        with pytest.raises(TreadleError, match=told):
            typed(word)
    assert names(typed("runs:you", "sessions:young"), "removed") == ["runs:young", "sessions:young"]
    assert sorted(os.listdir(runs_directory())) == ["old", "yonder"]


def test_what_is_open_in_another_process_stays_and_stands_in_no_others_way(state_home: Path) -> None:
    busy = Transcript.create(cwd="/x", model="m", session_id="busy")
    aged(history_of("busy"), 40)
    [row] = typed("sessions", "--older-than", "30d", "--dry-run")
    assert (row["state"], row["why"]) == ("kept", "open in another process")
    assert typed("sessions", "--older-than", "30d") == []
    Transcript.create(cwd="/x", model="m", session_id="idle").close()
    rows = typed("sessions:busy", "sessions:idle", code=1)
    assert names(rows, "failed") == ["sessions:busy"] and names(rows, "removed") == ["sessions:idle"]
    assert "is open in another process" in next(row["why"] for row in rows if row["state"] == "failed")
    busy.close()


def test_of_a_terminal_one_young_file_keeps_the_others_and_one_that_runs_is_not_listed(state_home: Path) -> None:
    where = default_directory()
    for name in ("one.exit", "one.log", "mixed.log", "runs.log", "runs.pid", ".hidden.log", "notes.txt"):
        aged(made(where, name), 3)
    made(where, "mixed.exit")
    with files.locked(os.path.join(where, "runs.pid")):
        rows = typed("terminals", "--dry-run")
        assert names(rows, "would go") == ["terminals:one"] and names(rows, "kept") == ["terminals:mixed"]
        assert rows[1]["bytes"] == 10
        typed("terminals")
    left = ["mixed.log", "mixed.exit", "runs.log", "runs.pid", ".hidden.log", "notes.txt"]
    assert sorted(os.listdir(where)) == sorted(left)


def test_a_worktree_with_work_stays_with_its_terminal(state_home: Path) -> None:
    workdir = Path(lock.base()) / "w-1" / "r"
    workdir.mkdir(parents=True)
    record = made(default_directory(), "w.exit")
    record.write_text(json.dumps({"format": 1, "id": "w", "code": 0, "workdir": str(workdir.resolve())}))
    aged(record, 40)
    [row] = typed("--dry-run")
    assert (row["kind"], row["state"], row["why"]) == ("trees", "kept", "treadle merge w") and typed() == []
    workdir.rmdir()
    assert names(typed(), "removed") == ["terminals:w"]


@pytest.mark.parametrize("record", [None, b"", b"{}"])
def test_a_runs_workspace_stays_whatever_became_of_its_record(state_home: Path, record: bytes | None) -> None:
    work = made(runs_directory(), "r1", "workspace", "work")
    if record is not None:
        made(runs_directory(), "r1", "workspace.json").write_bytes(record)
    aged(work.parent.parent, 40)
    assert typed() == [] and work.exists()
    assert names(typed("runs:r1"), "removed") == ["runs:r1"] and not work.exists()


def test_every_kind_is_in_the_help_with_its_limit() -> None:
    told = CliRunner().invoke(gc, ["--help"]).output
    assert all(f"  {kind:12} {limit:7} {what}" in told for kind, (limit, _, what) in KINDS.items())

"""The control plane with a sidecar that behaves: workspaces, requirements, checks, applying, secrets."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.host.conftest import QUICK, left_running, order, scripted
from tests.waiting import until
from tests.workspace.repositories import branches, make
from treadle.errors import Cancelled, NotFound, TimedOut, Unsupported, WorkspaceError
from treadle.host import run as runs
from treadle.host.conclusion import retained_runs
from treadle.host.job import Backend, Job, runs_directory
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.receipts.trace import ours
from treadle.session import Confinement
from treadle.wire.sidecar.connection import NO_POLICY, Requirement, Requirements, WorkspaceSpec
from treadle.wire.sidecar.receipts import Receipt
from treadle.workspace.directories import FILE_CAP
from treadle.workspace.workspace import Workspace

Runner = Callable[..., Any]
COMMIT = "echo two > a.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm two"


def more(receipt: Receipt) -> dict[str, Any]:
    return ours(receipt)


def left() -> list[str]:
    return [path.name for path in Path(runs_directory()).iterdir()]


async def test_changes_are_seen_and_the_source_is_untouched(run: Runner, source: Path) -> None:
    receipt, host = await run("good")
    assert receipt.outcome == "complete" and receipt.verification.git_status == "A  made.txt"
    assert "+do it" in (receipt.verification.git_diff or "")
    assert not (source / "made.txt").exists()
    kept = more(receipt)["workspace"]["kept"]
    assert Path(kept, "made.txt").read_text() == "do it\n"
    assert receipt.artifacts[0].kind == "patch" and Path(receipt.artifacts[0].path).exists()


async def test_applied_changes_come_to_the_source_and_nothing_is_left(run: Runner, source: Path) -> None:
    receipt, host = await run("good", apply=True)
    assert (source / "made.txt").read_text() == "do it\n"
    place = more(receipt)["workspace"]
    assert place["applied"]["written"] == ["made.txt"] and place["kept"] is None
    assert (place["applied"]["before"], place["applied"]["after"]) == (place["base_tree"], place["result_tree"])
    assert sorted(path.name for path in Path(host.directory).iterdir()) == ["lock", "patch.diff"]


async def test_the_trees_of_the_source_before_and_after_are_its_own_with_what_a_person_did_meanwhile(
    source: Path, store: ReceiptStore
) -> None:
    def person(workspace: Workspace) -> None:
        (source / "theirs.txt").write_text("theirs\n")

    receipt = await interfering(source, store, person, apply=True).run()
    place = more(receipt)["workspace"]
    assert place["base_tree"] != place["applied"]["before"] != place["applied"]["after"] != place["result_tree"]
    assert place["applied"]["after"] == git_tree(source, store)


async def test_a_source_that_cannot_be_read_whole_has_no_stated_tree(source: Path, store: ReceiptStore) -> None:
    def person(workspace: Workspace) -> None:
        with open(source / "huge.bin", "wb") as file:
            file.truncate(FILE_CAP + 1)

    receipt = await interfering(source, store, person, apply=True).run()
    applied = more(receipt)["workspace"]["applied"]
    assert applied["written"] == ["made.txt"] and applied["before"] is None and applied["after"] is None


def git_tree(root: Path, store: ReceiptStore) -> str:
    """The tree of a directory as a git says that has nothing to do with ours."""
    place = Path(store.directory) / "other.git"
    base = ["git", f"--git-dir={place}", f"--work-tree={root}"]
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run([*base, *words], check=True)
    return subprocess.run([*base, "write-tree"], check=True, capture_output=True, text=True).stdout.strip()


def interfering(source: Path, store: ReceiptStore, act: Callable[[Workspace], None], **more: Any) -> HostRun:
    """A run during which this is done to its workspace, once."""
    job = Job(order=order(source), backend=scripted("good"), timing=QUICK, **more)
    todo = [act]

    def heard(events: object) -> None:
        assert host._workspace is not None
        if todo:
            todo.pop()(host._workspace)

    host = HostRun(job, store, listener=heard)
    return host


async def test_where_the_difference_cannot_be_told_the_receipt_still_says_what_confined_the_run(
    source: Path, store: ReceiptStore
) -> None:
    need("bwrap")

    def tamper(workspace: Workspace) -> None:
        Path(workspace.store.directory, "HEAD").write_text("ref: refs/heads/other\n")
        for path in Path(workspace.store.directory).rglob("*"):
            if path.is_file():
                path.unlink()

    host = interfering(source, store, tamper, confinement=Confinement(use="on"))
    found = more(await host.run())["workspace"]
    assert found["result_tree"] is None and found["confined_by"] == "bubblewrap"


async def test_a_commit_of_a_confined_run_in_the_directory_itself_arrives(run: Runner, tmp_path: Path) -> None:
    need("bwrap")
    repository = make(tmp_path / "repo")
    doing = order(Path(repository.top), task=COMMIT)
    backend = scripted("runs_its_task_and_does_not_say_so")
    confined = Confinement(use="on")
    receipt, _ = await run(
        "", Job(order=doing, backend=backend, mode="pass_through", timing=QUICK, confinement=confined)
    )
    assert repository.git("log", "-1", "--format=%s").strip() == "two"
    assert "not taken over" not in str(more(receipt)["notes"])


async def test_what_is_not_complete_is_not_applied(run: Runner, source: Path) -> None:
    receipt, _ = await run("good", apply=True, check="false")
    assert receipt.outcome == "partial" and not (source / "made.txt").exists()
    assert more(receipt)["workspace"]["kept"]


async def test_conflicts_are_named_and_the_work_is_kept(run: Runner, source: Path) -> None:
    (source / "made.txt").mkdir()
    workspace = WorkspaceSpec(root=str(source), mode="staged", include=[], exclude=["made.txt"])
    receipt, _ = await run("good", order=order(source, workspace=workspace), apply=True)
    (conflict,) = more(receipt)["workspace"]["applied"]["conflicts"]
    assert conflict["path"] == "made.txt" and more(receipt)["workspace"]["kept"]


async def test_a_run_without_changes_leaves_no_workspace(run: Runner) -> None:
    await run("says_what_it_did_not_do")
    assert left() == []


async def test_a_worktree_is_kept_with_its_branch(run: Runner, tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    job = Job(order=order(Path(repository.top)), backend=scripted("good"), mode="worktree", timing=QUICK)
    receipt, host = await run("", job)
    branch = more(receipt)["workspace"]["branch"]
    assert branch in branches(repository) and Path(more(receipt)["workspace"]["kept"], "made.txt").exists()
    assert not Path(repository.top, "made.txt").exists()
    receipt, _ = await run("", replace(job, apply=True))
    assert Path(repository.top, "made.txt").exists()
    assert branches(repository) == {"main", branch}


async def test_a_check_says_whether_it_really_worked(run: Runner) -> None:
    receipt, _ = await run("good", check="echo no; exit 3")
    assert receipt.verification.harness_ok is False and receipt.outcome == "partial"
    assert more(receipt)["observed"]["check"]["ok"] is False
    assert more(receipt)["observed"]["check"]["output_tail"] == "no\n"
    assert any("said that the checks passed" in line for line in more(receipt)["differences"])


async def test_a_check_ends_when_the_run_is_stopped(source: Path, store: ReceiptStore, tmp_path: Path) -> None:
    job = Job(order=order(source), backend=scripted("good"), timing=QUICK, check="touch begun; sleep 3600")
    host = HostRun(job, store)
    task = asyncio.create_task(host.run())
    await until(Path(host.directory, "verify-1", "begun").exists, 60)
    await host.stop(Cancelled("enough"))
    receipt = await task
    assert receipt.outcome == "partial" and more(receipt)["observed"]["check"]["exit_code"] is None
    assert left_running(job) == []


async def test_a_run_is_stopped_while_its_workspace_is_copied(source: Path, store: ReceiptStore) -> None:
    """Files of holes take no place and long to look at."""
    for number in range(4):
        with open(source / f"big{number}", "wb") as big:
            big.truncate((2 << 30) - 1)
    job = Job(order=order(source), backend=scripted("good"), timing=QUICK)
    host = HostRun(job, store)
    task = asyncio.create_task(host.run())
    try:
        await until(lambda: Path(host.directory, "store.git").is_dir() or task.done(), 60)
    finally:
        await host.stop(Cancelled("enough"))
    async with asyncio.timeout(60):
        end = more(await task)["end"]
    assert end["cancelled_because"] == "enough"
    assert not Path(host.directory, "workspace").exists()
    assert left_running(job) == []


async def test_a_run_is_stopped_before_the_sidecar_has_said_hello(source: Path, store: ReceiptStore) -> None:
    job = Job(order=order(source), backend=scripted("no_hello"), timing=replace(QUICK, handshake=3600.0))
    host = HostRun(job, store)
    task = asyncio.create_task(host.run())
    await until(lambda: left_running(job), 60)
    await host.stop(TimedOut("enough"))
    end = more(await task)["end"]
    assert (end["code"], end["error_code"], end["cancelled_because"]) == ("timeout", "backend_timeout", "enough")
    assert left_running(job) == []


async def test_one_that_may_not_take_its_time_is_ended_at_once(source: Path, store: ReceiptStore) -> None:
    job = Job(order=order(source), backend=scripted("hang_and_deaf"), timing=replace(QUICK, cancel_grace=3600.0))
    host = HostRun(job, store)
    task = asyncio.create_task(host.run())
    await until(lambda: host.observed.trace.seen > 0, 60)
    await host.stop(Cancelled("enough"))
    host.kill()
    assert (await task).outcome == "failed" and left_running(job) == []


@pytest.mark.parametrize(("act", "tool"), [("says_what_it_did_not_do", "Bash"), ("does_what_it_does_not_say", "Write")])
async def test_what_needed_approval_and_happened_without_fails_the_run_whether_it_is_told_or_seen(
    run: Runner, source: Path, act: str, tool: str
) -> None:
    policy = replace(NO_POLICY, require_approval_for=[tool])
    receipt, _ = await run("", Job(order=order(source, policy=policy), backend=scripted(act), timing=QUICK, apply=True))
    end = more(receipt)["end"]
    assert receipt.outcome == "failed" and end["error_code"] == "policy_denied" and "no one was asked" in end["message"]
    assert [path.name for path in source.iterdir()] == ["a.txt"]


async def test_a_copy_that_cannot_be_written_costs_only_the_copy(run: Runner, tmp_path: Path) -> None:
    receipt, host = await run("hello_again", out_path=str(tmp_path / "nowhere" / "receipt.json"))
    assert receipt.outcome == "complete" and "nowhere" in str(host.not_copied)
    assert left() == []


async def test_a_missing_capability_is_refused_before_work_starts(run: Runner, source: Path) -> None:
    asks = Requirements(required=[Requirement(capability="vision", min_support="native")])
    receipt, host = await run("", Job(order=order(source, requirements=asks), backend=scripted("good"), timing=QUICK))
    assert type(host.observed.error) is Unsupported and "vision" in str(host.observed.error)
    assert more(receipt)["end"]["error_code"] == "capability_unsupported" and left() == []
    assert host.observed.trace.seen == 0


async def test_a_program_that_is_not_there_leaves_a_receipt_too(run: Runner) -> None:
    receipt, host = await run("", backend=Backend(name="none", argv=("/no/such/program",)))
    assert type(host.observed.error) is NotFound
    assert more(receipt)["end"]["error_code"] == "sidecar_spawn_failed" and receipt.backend.id == "none"


async def test_a_source_that_is_not_there_leaves_a_receipt_too(run: Runner, tmp_path: Path) -> None:
    receipt, host = await run("", Job(order=order(tmp_path / "nowhere"), backend=scripted("good"), timing=QUICK))
    assert type(host.observed.error) is WorkspaceError and left() == []
    assert more(receipt)["end"]["error_code"] == "workspace_staging_failed"


async def test_events_and_the_receipt_go_where_they_were_asked_to(run: Runner, tmp_path: Path) -> None:
    events, out = tmp_path / "events.jsonl", tmp_path / "receipt.json"
    receipt, host = await run("good", events_path=str(events), out_path=str(out))
    kinds = [json.loads(line)["type"] for line in events.read_text().splitlines()]
    assert kinds == ["run_started", "file_changed", "assistant_message", "run_completed"]
    assert json.loads(out.read_text())["receipt_sha256"] == receipt.receipt_sha256


async def test_a_full_disk_for_events_does_not_stop_the_run(run: Runner) -> None:
    receipt, _ = await run("good", events_path="/dev/full")
    assert receipt.outcome == "complete"
    assert any("/dev/full" in note["problem"] for note in more(receipt)["notes"])


@pytest.mark.slow
async def test_twenty_at_once_do_not_mix_up_anything(source: Path, store: ReceiptStore) -> None:
    jobs = [
        Job(order=order(source, task=f"task {number}"), backend=scripted("good"), timing=QUICK) for number in range(20)
    ]
    done = await asyncio.gather(*(HostRun(job, store).run() for job in jobs))
    for job, receipt in zip(jobs, done, strict=True):
        assert receipt.meta.work_order_id == job.order.id and f"+{job.order.task}\n" in (
            receipt.verification.git_diff or ""
        )
    assert store.check() == []


async def test_a_listener_that_breaks_does_not_stop_the_run(source: Path, store: ReceiptStore) -> None:
    def broken(events: object) -> None:
        raise BrokenPipeError(32, "nobody looks")

    job = Job(order=order(source), backend=scripted("good"), timing=QUICK)
    assert (await HostRun(job, store, listener=broken).run()).outcome == "complete"


async def test_a_run_during_which_the_clock_is_set_back_still_ends_after_it_began(
    source: Path, store: ReceiptStore
) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good"), timing=QUICK), store)
    host.observed.started += 3 * 86400
    meta = (await host.run()).meta
    assert meta.started_at <= meta.finished_at and meta.duration_ms < 600_000


async def test_a_bug_leaves_a_receipt_too(source: Path, store: ReceiptStore) -> None:
    def broken(events: object) -> None:
        raise KeyError("a bug")

    job = Job(order=order(source), backend=scripted("hang"), timing=QUICK)
    receipt = await HostRun(job, store, listener=broken).run()
    assert receipt.outcome == "failed" and more(receipt)["end"]["error_code"] == "internal"


async def test_what_is_kept_is_known_and_can_be_thrown_away(run: Runner, tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    _, copied = await run("good")
    job = Job(order=order(Path(repository.top)), backend=scripted("good"), mode="worktree", timing=QUICK)
    _, worktree = await run("", job)
    _, applied = await run("good", apply=True)
    await run("says_what_it_did_not_do")
    kept = retained_runs()
    assert {run_id: found.files for run_id, found in kept.items()} == {
        copied.run_id: ("patch.diff", "workspace"),
        worktree.run_id: ("patch.diff", "workspace"),
        applied.run_id: ("patch.diff",),
    }
    for found in kept.values():
        found.discard()
    assert retained_runs() == {} and branches(repository) == {"main"} and left() == []


def told(source: Path, task: str, **changes: Any) -> Job:
    """A sidecar that runs the task as a command and says nothing about it, where no sandbox holds it."""
    policy = replace(NO_POLICY, deny_write=[".env", "secret.txt", ".git", "**/.git/**"])
    work = order(source, task=task, policy=policy)
    backend = scripted("runs_its_task_and_does_not_say_so")
    return Job(order=work, backend=backend, timing=QUICK, apply=True, confinement=Confinement(use="off"), **changes)


@pytest.mark.parametrize(
    ("task", "path"),
    [
        ("echo stolen > .env", ".env"),
        ("touch -r a.txt ref; echo Stolen > .env; touch -r ref .env; rm ref", ".env"),
        ("ln -sf /etc/passwd .env", ".env"),
        ("echo secret.txt >> .gitignore; echo x > secret.txt", "secret.txt"),
        ("mkdir -p .git/hooks; echo exit 1 > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    ],
)
async def test_a_denied_write_is_found_whatever_git_ignores(run: Runner, source: Path, task: str, path: str) -> None:
    (source / ".gitignore").write_text(".env\n")
    (source / ".env").write_text("secret\n")
    receipt, host = await run("", told(source, task))
    assert receipt.outcome == "failed" and more(receipt)["end"]["error_code"] == "policy_denied"
    assert f"{path} was changed" in more(receipt)["end"]["message"]
    assert path in more(receipt)["observed"]["hidden"] and host.observed.merged is None


@pytest.mark.parametrize("name", ["info/attributes", "objects/info/alternates"])
async def test_what_is_kept_beside_the_workspace_cannot_hide_anything(run: Runner, source: Path, name: str) -> None:
    receipt, host = await run("", told(source, f"echo 'x*' >> ../store.git/{name}; echo 1 > x.txt"))
    assert receipt.outcome == "failed" and "was changed" in more(receipt)["end"]["message"]
    assert host.observed.merged is None and not (source / "x.txt").exists()


HOOK_AND_CONFIG = [
    ('echo 1 > "$(git rev-parse --git-common-dir)/hooks/post-commit"', ".git/hooks/post-commit"),
    ("git config core.pager evil", ".git/config"),
]


@pytest.mark.parametrize(("task", "path"), HOOK_AND_CONFIG)
async def test_a_planted_hook_and_a_changed_git_config_are_found(
    run: Runner, tmp_path: Path, task: str, path: str
) -> None:
    repository = make(tmp_path / "repo")
    receipt, _ = await run("", told(Path(repository.top), task, mode="pass_through"))
    assert receipt.outcome == "failed" and f"{path} was changed" in more(receipt)["end"]["message"]


async def test_in_a_worktree_they_are_the_runs_own_and_the_repository_is_untouched(run: Runner, tmp_path: Path) -> None:
    task = "; ".join(each for each, _ in HOOK_AND_CONFIG)
    repository = make(tmp_path / "repo")
    before = {place: place.read_bytes() for place in Path(repository.common).rglob("*") if place.is_file()}
    receipt, _ = await run("", told(Path(repository.top), task, mode="worktree"))
    assert receipt.outcome == "complete" and more(receipt)["workspace"]["result_commit"] is None
    assert {place: place.read_bytes() for place in Path(repository.common).rglob("*") if place.is_file()} == before


async def test_a_denied_file_that_is_written_anew_with_the_same_content_was_not_changed(
    run: Runner, source: Path
) -> None:
    (source / ".env").write_text("secret\n")
    receipt, _ = await run("", told(source, "echo secret > .env.new; mv .env.new .env"))
    assert receipt.outcome == "complete" and more(receipt)["observed"]["hidden"] == []


async def test_what_the_check_leaves_behind_is_not_the_work_of_the_run(run: Runner, source: Path) -> None:
    receipt, _ = await run("", told(source, "echo 2 > a.txt", check="echo 1 > secret.txt"))
    assert receipt.outcome == "complete" and receipt.verification.git_status == "M  a.txt"
    assert not (source / "secret.txt").exists()


async def test_the_receipt_says_what_was_ordered_and_where_the_order_is(run: Runner, tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    receipt, host = await run("", told(Path(repository.top), "echo 1 > a.txt"))
    asked = more(receipt)["order"]
    assert asked["task"] == "echo 1 > a.txt" and asked["agent"] == "runs_its_task_and_does_not_say_so"
    assert asked["base_commit"] == repository.commit("HEAD") and asked["command"][-1] == asked["agent"]
    assert more(receipt)["policy"]["rules"]["deny_write"] == host.job.order.policy.deny_write
    stored = json.loads(Path(asked["stored"]).read_text())
    assert stored["id"] == receipt.meta.work_order_id and stored["task"] == asked["task"]


async def test_artifacts_are_kept_when_the_workspace_goes(run: Runner, source: Path) -> None:
    receipt, host = await run("names_artifacts", apply=True)
    made, missing, patch = more(receipt)["artifacts"]
    assert Path(made["kept"]).read_text() == "do it\n" and made["path"] == "made.txt" and made["sha256"]
    assert missing["kept"] is None and missing["problem"] == "it is not there: No such file or directory"
    assert patch["kind"] == "patch" and not (Path(host.directory) / "workspace").exists()
    assert [artifact.path for artifact in receipt.artifacts] == [made["kept"], "none.log", patch["kept"]]


async def test_the_events_of_a_run_are_written_without_secrets_for_the_owner_only(
    run: Runner, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    events = tmp_path / "events.jsonl"
    work = order(source, task="correct-horse-battery")
    await run("", Job(order=work, backend=scripted("says_its_task"), timing=QUICK, events_path=str(events)))
    assert "correct-horse" not in events.read_text() and "[redacted]" in events.read_text()
    assert events.stat().st_mode & 0o777 == 0o600


async def test_a_name_that_is_not_utf8_is_applied_byte_for_byte_and_stated(run: Runner, source: Path) -> None:
    receipt, host = await run("", told(source, r"echo x > $(printf '\377\376.txt'); echo y > $(printf 'caf\351')"))
    assert receipt.outcome == "complete" and more(receipt)["workspace"]["kept"] is None
    assert sorted(name for name in os.listdir(os.fsencode(source)) if name > b"c") == [b"caf\xe9", b"\xff\xfe.txt"]
    assert [one["kind"] for one in more(receipt)["observed"]["oddities"]] == ["name", "name"]
    assert host.not_copied is None


async def test_what_a_tree_cannot_hold_is_stated_and_what_cannot_be_taken_is_kept(run: Runner, source: Path) -> None:
    task = "mkfifo pipe; truncate -s 20G big; ln -s /etc out; git init -q inner; echo 1 > inner/x; echo 2 > a.txt"
    receipt, host = await run("", replace(told(source, task), timeout=60))
    found = {(one["kind"], one["path"]) for one in more(receipt)["observed"]["oddities"]}
    assert found >= {("special", "pipe"), ("too_large", "big"), ("link_out", "out")}
    assert Path(more(receipt)["workspace"]["kept"], "big").exists()
    assert "big" not in (receipt.verification.git_status or "")


async def test_our_own_look_at_a_huge_result_is_bounded_by_the_time_of_the_run(
    source: Path, store: ReceiptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LOOK_SECONDS", 0.2)
    task = "for n in 1 2 3 4; do truncate -s 2000M big$n; done"
    host = HostRun(replace(told(source, task), timeout=60), store)
    host.observed.started -= 60  # so that none of its time is left when we look
    receipt = await host.run()
    assert receipt.outcome == "partial" and more(receipt)["workspace"]["kept"]
    assert "could not be examined" in more(receipt)["end"]["message"]


async def test_permissions_links_and_what_was_not_looked_at_are_stated(run: Runner, source: Path) -> None:
    (source / ".gitignore").write_text("ignored\n")
    task = "chmod 666 a.txt; chmod 4755 .gitignore; ln -s /etc/passwd out; echo 1 > ignored"
    job = Job(order=order(source, task=task), backend=scripted("runs_its_task_and_does_not_say_so"), timing=QUICK)
    receipt, _ = await run("", replace(job, confinement=Confinement(use="off")))
    seen = more(receipt)["observed"]
    assert {one["path"]: one["after"] for one in seen["permissions"]} == {".gitignore": "4755", "a.txt": "0666"}
    assert {one["kind"] for one in seen["oddities"]} == {"mode", "link_out"} and seen["hidden"] == ["ignored"]
    assert "which files were read" in seen["not_observed"]
    assert more(receipt)["differences"] == ["changed .gitignore and did not say so", "changed out and did not say so"]

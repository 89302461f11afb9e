"""The check sees the result as a tree of ours, in a directory of its own; commits come out whole or not at all."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tests.host.conftest import QUICK, order, scripted
from tests.host.test_run import more, told
from tests.waiting import until
from tests.workspace.repositories import branches, git, make
from treadle.errors import DiskFull
from treadle.host.job import Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.io.sandbox import limits, methods
from treadle.session import Confinement

Runner = Callable[..., Any]
needs_walls = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


async def test_what_the_run_left_beside_its_result_does_not_reach_the_check(run: Runner, source: Path) -> None:
    """An ignored file, a `.git` directory and a cache of the run would all make this check pass."""
    (source / ".gitignore").write_text("cache/\n")
    task = "mkdir -p cache .git; echo ok > cache/passed; echo ok > .git/passed; echo new > new.txt"
    job = told(source, task, check="test -f new.txt; ! cat cache/passed .git/passed")
    receipt, host = await run("", job)
    assert receipt.verification.harness_ok and more(receipt)["observed"]["check"]["ok"]
    assert not Path(host.directory, "verify").exists()


async def test_what_is_ignored_in_the_source_is_brought_as_it_was_before_the_run(run: Runner, source: Path) -> None:
    (source / ".gitignore").write_text("lib/\n*.env\n")
    (source / "lib").mkdir()
    (source / "lib" / "installed").write_text("good\n")
    (source / "a.env").write_text("good\n")
    task = "echo evil > lib/installed; echo 1 > new.txt"
    for mode in ("staged", "pass_through"):
        job = told(source, task, mode=mode, check="cat lib/installed a.env")
        receipt, _ = await run("", job)
        said = more(receipt)["observed"]["check"]["output_tail"]
        assert "evil" not in said
        assert said.count("good") == (2 if mode == "staged" else 1), "in place, what the run changed is not brought"


async def test_only_what_is_named_is_brought_and_the_setup_runs_first(run: Runner, source: Path) -> None:
    (source / ".gitignore").write_text("lib/\nother/\n")
    for name in ("lib", "other"):
        (source / name).mkdir()
        (source / name / "x").write_text("x\n")
    job = told(source, "echo 1 > new.txt", check="cat made; ls lib other")
    receipt, _ = await run("", replace(job, setup="echo set up > made", bring=("lib",)))
    said = more(receipt)["observed"]["check"]["output_tail"]
    assert "set up" in said and "lib:" in said and "other" in said and "No such file" in said
    assert not (source / "made").exists()


async def test_a_setup_that_fails_is_the_reason(run: Runner, source: Path) -> None:
    job = replace(told(source, "echo 1 > new.txt", check="true"), setup="echo no network; exit 7")
    receipt, _ = await run("", job)
    check = more(receipt)["observed"]["check"]
    assert (check["command"], check["exit_code"]) == ("echo no network; exit 7", 7) and receipt.outcome == "partial"


async def test_a_check_that_cannot_be_run_has_not_passed(source: Path, store: ReceiptStore) -> None:
    host = HostRun(told(source, "echo 1 > new.txt", check="true"), store)
    running = asyncio.create_task(host.run())
    await until(lambda: os.path.isdir(host.directory))
    Path(host.directory, "verify-1").touch()  # what is to be checked cannot be written there
    receipt = await running
    assert receipt.outcome == "partial" and receipt.verification.harness_ok is False
    assert "could not be run" in more(receipt)["observed"]["check"]["output_tail"]
    assert not (source / "new.txt").exists()


async def test_a_check_that_the_disk_has_no_room_for_is_this_machine_s_fault(
    source: Path, store: ReceiptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "full", lambda place: "0 KB are left")
    host = HostRun(told(source, "echo 1 > new.txt", check="false"), store)
    receipt = await host.run()
    assert receipt.outcome == "failed" and receipt.verification.harness_ok is False
    assert isinstance(host.observed.error, DiskFull)


async def test_no_check_reads_what_another_wrote(run: Runner, source: Path) -> None:
    job = told(source, "echo 1 > new.txt", check="test ! -e cache && echo hit > cache")
    for _ in range(2):
        receipt, _ = await run("", job)
        assert more(receipt)["observed"]["check"]["ok"]


async def test_a_linked_worktree_can_be_worked_in_and_checked(run: Runner, tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    git("worktree", "add", "-q", str(tmp_path / "linked"), cwd=repository.top)
    receipt, _ = await run("", told(tmp_path / "linked", "echo 1 > a.txt", mode="pass_through", check="git status -s"))
    assert more(receipt)["observed"]["check"]["output_tail"].split() == ["M", "a.txt"]


def working(source: Path, task: str, confinement: Confinement) -> Job:
    backend = scripted("runs_its_task_and_does_not_say_so")
    work = order(source, task=task)
    return Job(order=work, backend=backend, timing=QUICK, mode="worktree", confinement=confinement)


@needs_walls
async def test_the_commits_of_a_confined_run_are_on_its_branch(run: Runner, tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    task = (
        "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m one; echo 2 > two.txt; git add two.txt;"
        " git -c user.name=A -c user.email=a@b commit -qm two; echo 3 > three.txt;"
        " git update-ref refs/heads/main HEAD; git tag v1"
    )
    receipt, _ = await run("", working(Path(repository.top), task, Confinement(use="on")))
    place = more(receipt)["workspace"]
    assert (place["confined_by"], place["sealed"]) == ("bubblewrap", True)
    log = repository.git("log", "--format=%an %s", f"main..{place['branch']}").splitlines()
    assert log[0].startswith("treadle ") and log[1:] == ["A two", "A one"]
    assert repository.git("rev-parse", place["branch"]).strip() == place["result_commit"]
    assert repository.git("rev-parse", f"{place['branch']}^{{tree}}").strip() == place["result_tree"]
    assert branches(repository) == {"main", place["branch"]} and not repository.git("tag")
    assert repository.git("log", "--format=%s", "main") == "start\n"


@pytest.mark.parametrize("use", ["on", "off"])
async def test_a_run_in_the_persons_own_directory_is_sealed_if_it_is_confined(
    run: Runner, tmp_path: Path, use: Literal["on", "off"]
) -> None:
    if use == "on" and methods.available().method is None:
        pytest.skip("nothing to confine with")
    repository = make(tmp_path / "repo")
    job = working(Path(repository.top), "echo 2 > two.txt", Confinement(use=use))
    receipt, _ = await run("", replace(job, mode="pass_through"))
    place = more(receipt)["workspace"]
    assert place["mode"] == "pass_through" and place["sealed"] is (use == "on")


async def test_the_commits_of_a_run_that_is_not_confined_are_not_read_and_that_is_said(
    run: Runner, tmp_path: Path
) -> None:
    repository = make(tmp_path / "repo")
    task = "echo 2 > two.txt; git add -A; git -c user.name=A -c user.email=a@b commit -qm two"
    receipt, _ = await run("", working(Path(repository.top), task, Confinement(use="off")))
    place = more(receipt)["workspace"]
    assert place["sealed"] is False and place["confined_by"] is None and place["kept"]
    assert any("not sandboxed" in note["problem"] for note in more(receipt)["notes"])
    assert repository.git("show", f"{place['branch']}:two.txt") == "2\n"
    assert repository.git("log", "--format=%an", f"main..{place['branch']}") == "treadle\n"

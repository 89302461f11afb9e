"""A control plane that is killed leaves nothing behind that the next one cannot finish."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.host.conftest import MARK, marked, order
from tests.installed import TREADLE
from tests.stand_ins import bad_sidecar
from tests.tiers import spread
from tests.workspace.format0 import leave
from tests.workspace.repositories import branches, make
from treadle.errors import StorageError
from treadle.host.conclusion import recover, retained_runs
from treadle.host.job import RunRecord, runs_directory
from treadle.host.store import ReceiptStore
from treadle.receipts.trace import ours


def start(source: Path, act: str, *more: str) -> subprocess.Popen[bytes]:
    command = f"{sys.executable} -I -S {bad_sidecar.__file__} {act}"
    return subprocess.Popen(
        [TREADLE, "host", "run", "--task", "600", "--sidecar", command, "--root", str(source), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def wait_for_events(number: int = 1) -> Path:
    """Until the sidecar of the one run that there is has said something."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in Path(runs_directory()).glob("*/events.jsonl"):
            if path.read_bytes().count(b"\n") >= number:
                return path.parent
        time.sleep(0.02)
    raise AssertionError("nothing was said")


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def gone(mark: str) -> bool:
    """Whether the keeper has ended them all, which takes it a moment."""
    end = time.monotonic() + 60
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.05)
    return marked(mark) == []


async def test_a_killed_host_gets_its_receipt_from_the_next(source: Path, store: ReceiptStore, tmp_path: Path) -> None:
    out = tmp_path / "receipt.json"
    mark = f"killed-{os.getpid()}"
    process = start(source, "hang", "--out", str(out), "--env", f"{MARK}={mark}")
    directory = wait_for_events(1)
    assert recover(store).receipts == [], "a run that is under way is left alone"
    kill(process)
    assert gone(mark)
    done = await asyncio.gather(*(asyncio.to_thread(recover, store) for _ in range(4)))
    (receipt,) = (one for each in done for one in each.receipts)
    assert receipt.outcome == "failed" and receipt.meta.run_id == directory.name
    assert ours(receipt)["resumed_after_crash"] is True
    assert len(receipt.trace) == 2, "what the sidecar had said, and the error"
    assert msgspec.json.decode(out.read_bytes())["meta"]["run_id"] == directory.name
    assert recover(store).receipts == [] and store.check() == []
    assert list(Path(runs_directory()).iterdir()) == []


def test_a_copy_of_the_receipt_that_was_not_yet_written_is_written(
    source: Path, store: ReceiptStore, tmp_path: Path
) -> None:
    out = tmp_path / "receipt.json"
    process = start(source, "hang", "--out", str(out))
    wait_for_events(1)
    kill(process)
    (directory,) = Path(runs_directory()).iterdir()
    subprocess.run(["cp", "-r", directory, tmp_path / "copy"], check=True)
    recover(store)
    out.unlink()
    subprocess.run(["cp", "-r", tmp_path / "copy", directory], check=True)
    assert recover(store).receipts == [] and out.exists()


def test_one_that_cannot_be_seen_to_does_not_stop_the_others(source: Path, store: ReceiptStore) -> None:
    process = start(source, "hang")
    wait_for_events(1)
    kill(process)
    broken = Path(runs_directory()) / "0"
    broken.mkdir()
    (broken / "lock").symlink_to(broken / "nowhere" / "lock")
    said: list[str] = []
    assert len(recover(store, said.append).receipts) == 1
    assert len(said) == 1 and str(broken) in said[0]


def test_a_receipt_goes_to_the_store_that_its_run_had(
    source: Path, store: ReceiptStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABP_RECEIPTS_DIR", str(tmp_path / "theirs"))
    process = start(source, "hang")
    wait_for_events(1)
    kill(process)
    (receipt,) = recover(store).receipts
    assert store.at(str(tmp_path / "theirs")).has(receipt.meta.run_id) and not store.has(receipt.meta.run_id)


def test_work_that_was_done_is_kept_and_named(source: Path, store: ReceiptStore) -> None:
    process = start(source, "good_and_then_hangs")
    directory = wait_for_events(1)
    kill(process)
    (receipt,) = recover(store).receipts
    kept = ours(receipt)["workspace"]["kept"]
    assert kept == str(directory / "workspace") and Path(kept, "made.txt").exists()
    assert "made.txt" in (receipt.verification.git_diff or "")


def test_a_worktree_without_changes_goes_with_its_branch(tmp_path: Path, store: ReceiptStore) -> None:
    repository = make(tmp_path / "repo")
    process = start(Path(repository.top), "hang", "--workspace-mode", "worktree")
    wait_for_events(1)
    kill(process)
    assert len(recover(store).receipts) == 1
    assert branches(repository) == {"main"} and list(Path(runs_directory()).iterdir()) == []


def test_a_signal_cancels_and_leaves_a_receipt(source: Path, store: ReceiptStore) -> None:
    process = start(source, "stops_when_cancelled")
    wait_for_events(1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    (link,) = store.links()
    end = ours(store.get(link.run_id))["end"]
    assert end["code"] == "cancelled" and "SIGTERM" in end["cancelled_because"]


def test_what_was_barely_begun_is_cleared_away(store: ReceiptStore) -> None:
    old = Path(runs_directory()) / ("0" * 8)
    old.mkdir(parents=True)
    assert recover(store).receipts == [] and not old.exists()
    new = Path(runs_directory()) / ".making-1"
    new.mkdir()
    assert recover(store).receipts == [] and new.exists(), "someone may be about to lock it"


KILLED_AT = """
import os, signal, sys
at = int(sys.argv[1])
touches = 0
def hook(event, arguments):
    global touches
    begins = event == "os.mkdir" and ".treadle-apply-" in str(arguments[0])
    if begins or (touches and event in ("os.rename", "os.remove", "os.mkdir", "os.link")):
        touches += 1
        if touches == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.argv[1:] = sys.argv[2:]
from treadle.cli import main
sys.addaudithook(hook)
main()
"""


@pytest.mark.parametrize("at", spread([1, 2, 5, 6, 7, 9], quick=2, slow=2))
def test_a_host_killed_while_it_applies_leaves_all_or_nothing(source: Path, store: ReceiptStore, at: int) -> None:
    (source / "old.txt").write_text("old\n")
    command = f"{sys.executable} -I -S {bad_sidecar.__file__} runs_its_task_and_does_not_say_so"
    task = "echo 1 > a.txt; echo 1 > b.txt; rm old.txt; mkdir d; echo 1 > d/c.txt"
    options = ["host", "run", "--task", task, "--sidecar", command, "--root", str(source), "--apply"]
    process = subprocess.run([sys.executable, "-c", KILLED_AT, str(at), *options], capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr
    said: list[str] = []
    (receipt,) = recover(store, said.append).receipts
    assert receipt.outcome == "complete" and ours(receipt)["resumed_after_crash"] is True
    applied = ours(receipt)["workspace"]["applied"]
    there = sorted(str(path.relative_to(source)) for path in source.rglob("*"))
    if applied is None:
        assert there == ["a.txt", "old.txt"] and (source / "a.txt").read_text() == "one\n"
        assert said and Path(ours(receipt)["workspace"]["kept"], "b.txt").exists()
    else:
        assert there == ["a.txt", "b.txt", "d", "d/c.txt"] and sorted(applied["written"]) == [
            "a.txt",
            "b.txt",
            "d/c.txt",
        ]
        assert applied["deleted"] == ["old.txt"] and said == []
        place = ours(receipt)["workspace"]
        assert (applied["before"], applied["after"]) == (place["base_tree"], place["result_tree"])
    assert recover(store).receipts == [] and store.check() == []


@pytest.mark.parametrize("mode", ["staged", "worktree"])
def test_a_run_that_the_release_before_left_behind_gets_its_receipt_and_can_be_discarded(
    tmp_path: Path, store: ReceiptStore, mode: str
) -> None:
    repository = make(tmp_path / "repo")
    run_id = "00000001-0000-4000-8000-000000000000"
    directory = Path(runs_directory(), run_id)
    directory.mkdir(parents=True)
    root = leave(repository, directory, mode, name=run_id[:8])
    (root / "a.txt").write_text("two\n")
    record = RunRecord(format=1, run_id=run_id, order=order(Path(repository.top)), backend="b", mode=mode, started=1.0)  # type: ignore[arg-type]
    (directory / "run.json").write_bytes(msgspec.json.encode(record))
    (receipt,) = recover(store).receipts
    assert receipt.outcome == "failed" and receipt.verification.git_status == "M  a.txt"
    place = ours(receipt)["workspace"]
    assert place["kept"] == str(root) and place["base_tree"] != place["result_tree"]
    retained_runs()[run_id].discard()
    assert not directory.exists() and branches(repository) == {"main"}


def test_a_run_of_a_newer_release_is_left_alone_and_named(source: Path, store: ReceiptStore) -> None:
    directory = Path(runs_directory(), "00000001-0000-4000-8000-000000000000")
    directory.mkdir(parents=True)
    record = RunRecord(format=99, run_id=directory.name, order=order(source), backend="b", mode="staged", started=1.0)
    (directory / "run.json").write_bytes(msgspec.json.encode(record))
    said: list[str] = []
    done = recover(store, said.append, again=False)
    assert done.receipts == [] and list(done.failed) == [str(directory)] and "newer treadle" in said[0]
    recover(store, said.append, again=False)
    assert len(said) == 1, "a host that starts says it once"
    assert recover(store, said.append).failed and len(said) == 2, "who asks to recover is told each time"
    assert sorted(os.listdir(directory)) == ["lock", "run.json"]
    (directory / "run.json").rename(directory / "patch.diff")
    (directory / "workspace.json").write_text(
        '{"format":99,"mode":"staged","source":"/s","root":"/r","directory":"/d","before":"x"}'
    )
    with pytest.raises(StorageError, match="newer treadle"):
        retained_runs()[directory.name].discard()
    assert (directory / "patch.diff").exists()

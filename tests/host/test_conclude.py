"""What is left of a run: its receipt, a copy of that, and only those files that the receipt points to."""

from pathlib import Path
from typing import Any

import pytest

from tests.host.conftest import order, scripted
from tests.workspace.repositories import make
from treadle.errors import StorageError
from treadle.host.conclusion import (
    describe,
    make_receipt,
    redactor_of,
    repository_of,
    settle,
    write_copy,
)
from treadle.host.job import Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.receipts.trace import Observed, Walls, ours
from treadle.redact import MARK
from treadle.wire.sidecar.receipts import Receipt, ToolCalled
from treadle.wire.sidecar.repair import read_receipt
from treadle.workspace.merge import Conflict, Merged
from treadle.workspace.workspace import Workspace, prepare


def more(receipt: Receipt) -> dict[str, Any]:
    return ours(receipt)


def test_what_no_receipt_can_hold_costs_only_what_was_said(source: Path, store: ReceiptStore) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    host.observed.trace.extend([ToolCalled(ts="2025-01-01T00:00:00Z", tool_name="x", input=object())])
    receipt = store.add(make_receipt(host.observed))
    assert store.get(host.run_id) == receipt and receipt.outcome == "failed"
    assert "makes no receipt: TypeError" in more(receipt)["end"]["message"]


def test_a_copy_of_the_receipt_can_be_read_again(source: Path, store: ReceiptStore, tmp_path: Path) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    receipt = store.add(make_receipt(host.observed))
    write_copy(receipt, str(tmp_path / "copy.json"))
    text = (tmp_path / "copy.json").read_bytes()
    assert read_receipt(text, []) == receipt and text.endswith(b"}\n") and b'\n  "meta"' in text
    assert (tmp_path / "copy.json").stat().st_mode & 0o777 == 0o644
    with pytest.raises(StorageError):
        write_copy(receipt, str(tmp_path / "none" / "copy.json"))


def test_secrets_of_the_order_and_of_our_environment_are_known(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "our-own-words")
    work = order(source)
    work.config.env["THEIR_TOKEN"] = "words-of-theirs"
    assert redactor_of(work).text("our-own-words words-of-theirs") == f"{MARK} {MARK}"


@pytest.mark.parametrize(("left_out", "stays"), [(0, []), (3, ["events.jsonl", "lock"])])
def test_a_run_leaves_only_what_its_receipt_points_to(
    source: Path, store: ReceiptStore, tmp_path: Path, left_out: int, stays: list[str]
) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    host.observed.trace.seen += left_out
    place = tmp_path / "run"
    place.mkdir()
    for name in ("lock", "run.json", "receipt.json", "events.jsonl", "workspace.json"):
        (place / name).touch()
    settle(str(place), host.observed, None)
    assert sorted(path.name for path in place.glob("*")) == stays and place.exists() == bool(stays)


def worked(tmp_path: Path, store: ReceiptStore, *remotes: str, mode: Any = "staged") -> tuple[Workspace, Observed]:
    """A run in a repository that has changed a file, compared with what was there before."""
    repository = make(tmp_path / "repo")
    for remote in remotes:
        repository.git("remote", "add", *remote.split("="))
    host = HostRun(Job(order=order(tmp_path / "repo"), backend=scripted("good")), store)
    directory = tmp_path / "run"
    directory.mkdir()
    workspace = prepare(mode, repository.top, str(directory), name="r1")
    Path(workspace.root, "new.txt").write_text("1")
    host.observed.difference = workspace.difference()
    return workspace, host.observed


def test_all_is_said_about_the_workspace(tmp_path: Path, store: ReceiptStore) -> None:
    workspace, observed = worked(tmp_path, store, "other=https://x.example/a", "origin=https://me:key@x.example/b.git")
    place = workspace.place
    assert observed.difference is not None
    observed.commit, observed.walls = "c", Walls(method="bubblewrap", covers="agent", network="on")
    address = repository_of(workspace)
    observed.attempts = [{"run_id": "r"}, {"base": {"commit": "b", "tree": "t"}}]
    assert describe(workspace, observed, address, apply=True) == {
        "mode": "staged",
        "source": str(tmp_path / "repo"),
        "repository": "https://x.example/b.git",
        "branch": place.branch,
        "directory": None,
        "head_commit": place.commit,
        "base_commit": "b",
        "base_tree": "t",
        "start_tree": place.before,
        "result_tree": observed.difference.after,
        "result_commit": "c",
        "confined_by": "bubblewrap",
        "sealed": True,
        "apply": True,
        "kept": place.root,
    }
    observed.walls, observed.attempts = None, []
    found = describe(workspace, observed)
    assert (found["base_commit"], found["base_tree"]) == (place.commit, place.before)
    assert (found["confined_by"], found["sealed"], found["apply"]) == (None, False, None)
    conflict = Merged(conflicts=(Conflict(path="new.txt", reason="changed"),))
    for merged, keep, kept in ((Merged(), False, None), (Merged(), True, place.root), (conflict, False, place.root)):
        observed.merged = merged
        assert describe(workspace, observed, keep=keep)["kept"] == kept
    observed.difference = None
    found = describe(workspace, observed)
    assert found["kept"] == place.root and found["result_tree"] is None, "what was not compared is kept"


@pytest.mark.parametrize(
    ("remotes", "address"),
    [((), None), (("one=git@x.example:a.git",), "ssh://x.example/a.git"), (("a=https://x/a", "b=https://x/b"), None)],
)
def test_the_only_remote_is_the_address_and_of_several_none(
    tmp_path: Path, store: ReceiptStore, remotes: tuple[str, ...], address: str | None
) -> None:
    assert repository_of(worked(tmp_path, store, *remotes)[0]) == address


def test_in_the_persons_own_directory_nothing_is_kept(tmp_path: Path, store: ReceiptStore) -> None:
    workspace, observed = worked(tmp_path, store, mode="pass_through")
    observed.difference = None
    assert describe(workspace, observed, keep=True)["kept"] is None


@pytest.mark.parametrize(
    ("merged", "keep", "compared", "stays"),
    [
        (Merged(), False, True, False),
        (Merged(), True, True, True),
        (Merged(), False, False, True),
        (None, False, True, True),
    ],
)
def test_a_workspace_stays_if_work_would_be_lost_or_someone_wants_it(
    tmp_path: Path, store: ReceiptStore, merged: Merged | None, keep: bool, compared: bool, stays: bool
) -> None:
    workspace, observed = worked(tmp_path, store)
    observed.merged = merged
    if not compared:
        observed.difference = None
    directory = tmp_path / "run"
    for name in ("run.json", "cancel", "receipt.json", "events.jsonl"):
        (directory / name).touch()
    settle(str(directory), observed, workspace, keep)
    assert Path(workspace.root).exists() is stays and directory.exists() is stays
    assert (directory / "workspace.json").exists() is stays
    assert not (directory / "run.json").exists() and not (directory / "cancel").exists()

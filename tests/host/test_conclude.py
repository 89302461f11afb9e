"""What is left of a run: its receipt, a copy of that, and only those files that the receipt points to."""

from pathlib import Path
from typing import Any

import pytest

from tests.host.conftest import order, scripted
from tests.workspace.repositories import make
from treadle.host.conclusion import (
    make_receipt,
    redactor_of,
    repository_of,
)
from treadle.host.job import Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.receipts.trace import Observed, ours
from treadle.redact import MARK
from treadle.wire.sidecar.receipts import Receipt, ToolCalled
from treadle.workspace.workspace import Workspace, prepare


def more(receipt: Receipt) -> dict[str, Any]:
    return ours(receipt)


def test_what_no_receipt_can_hold_costs_only_what_was_said(source: Path, store: ReceiptStore) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    host.observed.trace.extend([ToolCalled(ts="2025-01-01T00:00:00Z", tool_name="x", input=object())])
    receipt = store.add(make_receipt(host.observed))
    assert store.get(host.run_id) == receipt and receipt.outcome == "failed"
    assert "makes no valid receipt: TypeError" in more(receipt)["end"]["message"]


def test_secrets_of_the_order_and_of_our_environment_are_known(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "our-own-words")
    work = order(source)
    work.config.env["THEIR_TOKEN"] = "words-of-theirs"
    assert redactor_of(work).text("our-own-words words-of-theirs") == f"{MARK} {MARK}"


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


@pytest.mark.parametrize(
    ("remotes", "address"),
    [((), None), (("one=git@x.example:a.git",), "ssh://x.example/a.git"), (("a=https://x/a", "b=https://x/b"), None)],
)
def test_the_only_remote_is_the_address_and_of_several_none(
    tmp_path: Path, store: ReceiptStore, remotes: tuple[str, ...], address: str | None
) -> None:
    assert repository_of(worked(tmp_path, store, *remotes)[0]) == address

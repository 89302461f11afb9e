"""Ends a run: writes the receipt and keeps what is worth keeping, also for runs whose control plane has died."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import Busy, LocalError, StorageError, TreadleError
from treadle.host.job import CANCEL, MAKING, PENDING, RUN, RunRecord, runs_directory
from treadle.host.store import ReceiptStore
from treadle.io.descriptors import remove_tree
from treadle.io.files import iter_lines, locked, read_if_there, write_atomic
from treadle.io.paths import state_dir
from treadle.io.records import FileRecord
from treadle.receipts.statement import repository_url
from treadle.receipts.trace import Observed, ours, with_observed
from treadle.redact import Redactor
from treadle.settings import config
from treadle.wire.common.records import Newer
from treadle.wire.sidecar.connection import WorkOrder
from treadle.wire.sidecar.receipts import AnyAgentEvent, Receipt, decode_exact, encode
from treadle.wire.sidecar.repair import Deviation
from treadle.workspace import journal
from treadle.workspace import workspace as workspaces
from treadle.workspace.merge import Merged
from treadle.workspace.user_repository import UserRepository

# Ends a run: writes the receipt and its copy, and keeps what is worth keeping of the workspace.

log = logging.getLogger(__name__)


def describe(
    workspace: workspaces.Workspace,
    observed: Observed,
    repository: str | None = None,
    *,
    keep: bool = False,
    apply: bool | None = None,
) -> dict[str, Any]:
    """`repository`: its address, as it was before the agent started. `apply`: whether the changes were to be applied;
    None where that is no longer known.

    The base is that of the order, the result the whole of what the run left; a later attempt starts from what the
    earlier ones left, if they worked in the same directory.
    """
    place, found = workspace.place, observed.difference
    start = {"commit": place.commit if place.committed else place.base, "tree": place.start_tree}
    base = next((one["base"] for one in observed.attempts if one.get("base")), start)
    try:
        unknown = observed.difference is None
        retained = place.mode != "pass_through" and (
            keep or unknown or workspace.holds_work(applied=_applied(observed))
        )
    except Exception:
        retained = True  # what cannot be examined must not be removed
    return {
        "mode": place.mode,
        "source": place.source,
        "repository": repository,
        "branch": place.branch,
        "directory": workspace.inside.rstrip("/") or None,
        "head_commit": place.commit,
        "base_commit": base["commit"],
        "base_tree": base["tree"],
        "start_tree": start["tree"],
        "result_tree": found.stated if found else None,
        "result_commit": observed.commit,
        "confined_by": observed.walls.method if observed.walls else None,
        "sealed": sealed(observed),
        "apply": apply,
        "kept": place.root if retained else None,
    }


def repository_of(workspace: workspaces.Workspace) -> str | None:
    """The address that others know the source's repository by: that of `origin`, or of the only remote."""
    try:
        user = workspace.place.repository()
        return address_of(user) if user is not None else None
    except TreadleError:
        return None


def address_of(user: UserRepository) -> str | None:
    settings = user.settings()
    found = {key: value for _, key, value in settings if key.startswith("remote.") and key.endswith(".url")}
    if "remote.origin.url" in found:
        return repository_url(found["remote.origin.url"])
    return repository_url(*found.values()) if len(found) == 1 else None


def describe_error(error: Exception) -> str:
    """What to say about an error in the receipt; one that was not expected is logged with all that is known of it."""
    if isinstance(error, TreadleError):
        return str(error)
    log.error("a run could not be concluded as expected", exc_info=error)
    return f"{type(error).__name__}: {error}"


def sealed(observed: Observed) -> bool:
    """Whether the kernel kept the run from our record and from the person's repository. In the person's own directory,
    too: there it had a private `.git`, or a read-only one."""
    return observed.walls is not None


def _applied(observed: Observed) -> bool:
    return observed.merged is not None and not observed.merged.conflicts


def redactor_of(order: WorkOrder) -> Redactor:
    """A redactor that knows the secrets of our environment and settings, and of what the order gives its agent."""
    return Redactor.of_environment({**os.environ, **order.config.env}, config.known())


def make_receipt(observed: Observed) -> Receipt:
    """The receipt as it is stored, except for its place in the chain."""
    redactor = redactor_of(observed.order)
    try:
        return observed.receipt(redactor)
    except Exception as error:
        log.exception("what was seen of a run makes no receipt", extra={"run": observed.run_id})
        return observed.without_its_words(error).receipt(redactor)


def with_workspace(receipt: Receipt, facts: dict[str, Any]) -> Receipt:
    """A receipt of ours, not yet in the chain, with other facts about its workspace."""
    return with_observed(receipt, workspace={**ours(receipt)["workspace"], **msgspec.to_builtins(facts)})


def write_copy(receipt: Receipt, path: str) -> None:
    write_atomic(path, msgspec.json.format(encode(receipt), indent=2) + b"\n", 0o644)


def settle(directory: str, observed: Observed, workspace: workspaces.Workspace | None, keep: bool = False) -> None:
    """Keep only what the written receipt refers to. What cannot be removed, or was not looked at, counts as kept."""
    try:
        if workspace is not None and not keep and observed.difference is not None:
            workspace.release(applied=_applied(observed))
    except Exception as error:
        log.warning("the workspace of the run is left: %s", describe_error(error), extra={"run": observed.run_id})
    done_with = ["run.json", PENDING, CANCEL]
    if not os.path.isdir(os.path.join(directory, "workspace")):
        done_with.append("workspace.json")
        if workspace is not None:
            workspace.forget_base()
    if not observed.trace.left_out:
        done_with.append("events.jsonl")
    for name in done_with:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))
    if set(os.listdir(directory)) <= {"lock"}:
        remove_tree(directory)


# After a control plane has died, writes the receipt of every run it left behind, from what is on disk.

NOT_RECOVERED = "host-not-recovered.json"
"""In the state directory: which runs could not be finished, and why. What newer releases have left is not touched."""

_event: msgspec.json.Decoder[AnyAgentEvent] = msgspec.json.Decoder(AnyAgentEvent)


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    receipts: list[Receipt]
    """Of the runs that were finished now."""
    failed: dict[str, str]
    """By directory, why it could not be finished. The directory is left as it is."""


def recover(store: ReceiptStore, warn: Callable[[str], None] = log.warning, *, again: bool = True) -> Recovered:
    """Finish all runs whose control plane is gone. Those that still run are left alone.

    What cannot be finished is tried and reported again, unless `again` is false and it failed before for the same
    reason.
    """
    done: list[Receipt] = []
    failed: dict[str, str] = {}
    for directory in _directories():
        try:
            # A control plane holds this lock as long as it lives, so one that is free was left behind; while we hold
            # it, no second process recovers the same run.
            with locked(os.path.join(directory, "lock"), 0):
                receipt = _finish(directory, store, warn)
        except Busy:
            continue
        except Exception as error:
            if os.path.isdir(directory):  # otherwise another process has just finished it
                if not isinstance(error, TreadleError):
                    log.exception("a run could not be recovered because of an unexpected error")
                failed[directory] = str(error)
            continue
        if receipt is not None:
            done.append(receipt)
    new = _newly_failed(failed)
    for directory, why in failed.items():
        if again or directory in new:
            warn(f"what was left in {directory} cannot be recovered: {why}")
    return Recovered(receipts=done, failed=failed)


FAILED = FileRecord(dict[str, str], sync=False)


def _newly_failed(failed: dict[str, str]) -> set[str]:
    """The directories that did not fail before for this reason; from now on they did."""
    place = os.path.join(state_dir(), NOT_RECOVERED)
    redactor = Redactor.of_environment(os.environ, config.known())
    failed = {directory: redactor.text(why) for directory, why in failed.items()}
    before = FAILED.load_whole(place) or {}
    if failed != before:
        with contextlib.suppress(TreadleError):
            FAILED.save(place, failed)
    return {directory for directory, why in failed.items() if before.get(directory) != why}


def _directories() -> Iterator[str]:
    base = runs_directory()
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        directory = os.path.join(base, name)
        if os.path.isdir(directory):
            yield directory


class RetainedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a finished run: a workspace with work in it, its patch, events too long for the receipt."""

    run_id: str
    directory: str
    files: tuple[str, ...]
    workspace: workspaces.Prepared | None = None
    newer: bool = False
    """Whether a newer treadle has kept it, so that this one must not touch it."""

    def discard(self) -> None:
        if self.newer:
            raise Newer(self.directory)
        workspace = workspaces.open_workspace(self.directory)
        if workspace is not None:
            workspace.discard()
        remove_tree(self.directory)


def retained_runs() -> dict[str, RetainedRun]:
    found = {}
    for directory in _directories():
        files = sorted(set(os.listdir(directory)) - {"lock", workspaces.RECORD, workspaces.STORE, workspaces.SNAPSHOTS})
        if files and "run.json" not in files:
            name = os.path.basename(directory)
            try:
                place, newer = workspaces.read_record(directory), False
            except StorageError:
                place, newer = None, True
            found[name] = RetainedRun(
                run_id=name, directory=directory, files=tuple(files), workspace=place, newer=newer
            )
    return found


def _finish(directory: str, store: ReceiptStore, warn: Callable[[str], None]) -> Receipt | None:
    record = _read(directory)
    if record is None:
        with contextlib.suppress(FileNotFoundError):
            if set(os.listdir(directory)) <= {"lock"} and _is_old(directory):
                remove_tree(directory)  # it died before it wrote anything
        return None
    if record.receipts is not None:
        store = store.at(record.receipts)
    observed = Observed(record.run_id, record.order, record.backend, record.started)
    observed.walls, observed.enforcement = record.walls, record.enforced
    workspace = workspaces.open_workspace(directory)
    known = store.has(record.run_id)  # true: it died after its receipt was stored, which may not have been copied yet
    ready = None if known else _pending(directory)
    if ready is not None:
        receipt = store.add(_resumed(ready, workspace, directory, warn), record.registered)
    else:
        journal.settle(os.path.join(directory, workspaces.JOURNAL))
        stored = store.order_path(record.order.id)
        observed.order_path = stored if os.path.exists(stored) else None
        _look_at(observed, workspace, directory, record.repository)
        receipt = store.get(record.run_id) if known else store.add(make_receipt(observed), record.registered)
    observed.merged = _merged(receipt)
    try:
        if record.out_path is not None:
            write_copy(receipt, record.out_path)
    except TreadleError as error:
        warn(str(error))
    if workspace is None:
        # It died while the workspace was being made: no one has worked in it.
        workspaces.abandon(directory)
        remove_tree(os.path.join(directory, workspaces.SNAPSHOTS))
        if record.mode == "worktree":
            workspaces.abandoned(record.order.workspace.root, record.run_id[:8])
    settle(directory, observed, workspace)
    return None if known else receipt


def _pending(directory: str) -> Receipt | None:
    """The receipt that was ready when the host died."""
    data = read_if_there(os.path.join(directory, PENDING))
    try:
        return None if data is None else decode_exact(data)
    except msgspec.MsgspecError:
        return None


def _merged(receipt: Receipt) -> Merged | None:
    return msgspec.convert(ours(receipt)["workspace"].get("applied"), Merged | None)


def _resumed(
    ready: Receipt, workspace: workspaces.Workspace | None, directory: str, warn: Callable[[str], None]
) -> Receipt:
    """The receipt corrected to the facts: the changes it calls applied are applied now, or it no longer says so."""
    ready = with_observed(ready, resumed_after_crash=True)
    planned = _merged(ready)
    undone = journal.settle(os.path.join(directory, workspaces.JOURNAL)) == "undone"
    if planned is None or planned.conflicts or workspace is None:
        return ready
    done = None
    try:
        # Also right when nothing had begun: files that are there already are not written again.
        done = None if undone else workspace.apply(workspace.plan(anyway=True))
    except Exception as error:
        warn(f"the changes of {ready.meta.run_id} could not be applied: {describe_error(error)}")
    if done is None or done.conflicts:
        warn(f"the changes of {ready.meta.run_id} are not in {workspace.place.source}; they are in {workspace.root}")
        return with_workspace(ready, {"applied": done, "kept": workspace.root})
    return with_workspace(ready, {"applied": replace(planned, after=done.after)})


def _is_old(directory: str) -> bool:
    """Whether it is too old for its maker to be about to lock it."""
    return time.time() - os.stat(directory).st_mtime > 60.0 or not os.path.basename(directory).startswith(MAKING)


def _read(directory: str) -> RunRecord | None:
    return RUN.load_whole(os.path.join(directory, "run.json"))


def _look_at(
    observed: Observed, workspace: workspaces.Workspace | None, directory: str, repository: str | None
) -> None:
    observed.resumed = True
    observed.handshaking = False
    observed.error = LocalError("the control plane ended before the run did")
    events = os.path.join(directory, "events.jsonl")
    for line in iter_lines(events):
        with contextlib.suppress(msgspec.MsgspecError):
            observed.trace.extend([_event.decode(line)], len(line))
    with contextlib.suppress(OSError):
        observed.finished = max(observed.started, os.stat(events).st_mtime)
    if workspace is None:
        return
    try:
        observed.difference = workspace.difference()
        if observed.difference.changes:
            observed.patch_path = os.path.join(directory, "patch.diff")
            write_atomic(observed.patch_path, observed.difference.patch)
    except Exception as error:
        observed.notes.append(Deviation(where="workspace", problem=describe_error(error)))
    observed.workspace = describe(workspace, observed, repository)

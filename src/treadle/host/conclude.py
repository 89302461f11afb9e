"""Ends a run: writes the receipt and its copy, and keeps what is worth keeping of the workspace."""

import contextlib
import logging
import os
from typing import Any

import msgspec

from treadle.errors import TreadleError
from treadle.host.job import CANCEL, PENDING
from treadle.io.files import write_atomic
from treadle.io.removing import remove_tree
from treadle.receipts.statement import repository_url
from treadle.receipts.trace import Observed
from treadle.redact import Redactor
from treadle.settings import secrets
from treadle.wire.sidecar.connection import WorkOrder
from treadle.wire.sidecar.receipts import Receipt, encode
from treadle.workspace.workspace import Workspace

log = logging.getLogger(__name__)


def describe(
    workspace: Workspace, observed: Observed, *, keep: bool = False, apply: bool | None = None
) -> dict[str, Any]:
    """`apply`: whether the changes were to be applied; None where that is no longer known."""
    place = workspace.place
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
        "repository": _repository(workspace),
        "branch": place.branch,
        "base_commit": place.commit,
        "base_tree": place.before,
        "result_tree": observed.difference.after if observed.difference else None,
        "result_commit": observed.commit,
        "confined_by": observed.walls.method if observed.walls else None,
        "sealed": sealed(observed),
        "apply": apply,
        "kept": place.root if retained else None,
    }


def _repository(workspace: Workspace) -> str | None:
    """The address that others know the source's repository by: that of `origin`, or of the only remote."""
    try:
        user = workspace.place.repository()
        settings = user.settings() if user is not None else []
    except TreadleError:
        return None
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
    return Redactor.of_environment({**os.environ, **order.config.env}, secrets.known())


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
    more = receipt.usage_raw["treadle"]
    more = {**more, "workspace": {**more["workspace"], **msgspec.to_builtins(facts)}}
    return msgspec.structs.replace(receipt, usage_raw={**receipt.usage_raw, "treadle": more})


def write_copy(receipt: Receipt, path: str) -> None:
    write_atomic(path, msgspec.json.format(encode(receipt), indent=2) + b"\n", 0o644)


def settle(directory: str, observed: Observed, workspace: Workspace | None, keep: bool = False) -> None:
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

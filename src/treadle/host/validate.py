"""Whether a strict peer would accept a file, and if not, why."""

from typing import Any

import msgspec

from treadle.errors import ConfigError
from treadle.host.backends import read_backplane
from treadle.host.order import TASK_MAX, read_tree
from treadle.wire.sidecar.connection import PolicyProfile, WorkOrder, compatible
from treadle.wire.sidecar.receipts import CONTRACT, Receipt, normal, normal_uuid
from treadle.wire.sidecar.repair import Deviation, convert


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    valid: bool
    problems: tuple[str, ...] = ()


def check_file(path: str) -> Validation:
    """Check a file whose kind is found by its content. Raises ConfigError for an unknown kind."""
    if path.endswith(".toml"):
        tree = read_tree(path)
        if "backends" in tree or "default_backend" in tree:
            read_backplane(path)
            return Validation(kind="backplane.toml", valid=True)
    else:
        tree = read_tree(path)
    if isinstance(tree, dict) and tree.get("t") == "run":
        tree = tree.get("work_order")
    kind, name = _kind(tree)
    if kind is None:
        raise ConfigError(f"{path} is not a work order, receipt, policy or backplane.toml")
    notes: list[Deviation] = []
    try:
        value = convert(tree, kind, name.replace(" ", "_"), notes)
    except msgspec.ValidationError as error:
        return Validation(kind=name, valid=False, problems=(str(error), *map(str, notes)))
    if kind is PolicyProfile:
        notes = [note for note in notes if note.problem != "missing"]  # a missing list means an empty one
    problems = [*map(str, notes), *_more(value)]
    return Validation(kind=name, valid=not problems, problems=tuple(problems))


def _kind(tree: Any) -> tuple[Any, str]:
    if not isinstance(tree, dict):
        return None, ""
    if "meta" in tree or "receipt_sha256" in tree:
        return Receipt, "receipt"
    if "task" in tree:
        return WorkOrder, "work order"
    if tree.keys() & set(PolicyProfile.__struct_fields__):
        return PolicyProfile, "policy"
    return None, ""


def _more(value: Any) -> list[str]:
    """The rules of the contract that types cannot express."""
    try:
        if isinstance(value, Receipt):
            normal(value)
        if isinstance(value, WorkOrder):
            normal_uuid(value.id)
    except ValueError as error:
        return [str(error)]
    if isinstance(value, Receipt) and not compatible(value.meta.contract_version):
        return [f"receipt.meta.contract_version is {value.meta.contract_version!r}, which {CONTRACT} does not cover"]
    if isinstance(value, WorkOrder) and not 0 < len(value.task.strip()) <= TASK_MAX:
        return [f"work_order.task must have from 1 to {TASK_MAX} characters"]
    return []

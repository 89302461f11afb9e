"""Files that a strict peer would take, and others."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.wire.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT
from treadle.errors import ConfigError
from treadle.host.backends import check_file
from treadle.host.order import TASK_MAX


def check(tmp_path: Path, tree: object, name: str = "f.json") -> tuple[str, bool, int]:
    path = tmp_path / name
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    report = check_file(str(path))
    return report.kind, report.valid, len(report.problems)


def test_each_kind_is_known_by_its_content(tmp_path: Path) -> None:
    order, receipt = msgspec.to_builtins(SAMPLE_ORDER), msgspec.to_builtins(SAMPLE_RECEIPT)
    assert check(tmp_path, order) == ("work order", True, 0)
    assert check(tmp_path, {"t": "run", "id": "x", "work_order": order}) == ("work order", True, 0)
    assert check(tmp_path, receipt) == ("receipt", True, 0)
    assert check(tmp_path, order["policy"]) == ("policy", True, 0)
    assert check(tmp_path, {"deny_read": []}) == ("policy", True, 0)
    for text in ('default_backend = "x"\n', '[backends.x]\ntype = "sidecar"\ncommand = "x"\n'):
        assert check(tmp_path, text, "b.toml") == ("backplane.toml", True, 0)
    assert check(tmp_path, 'deny_read = [".env"]\n', "p.toml") == ("policy", True, 0)
    assert check(tmp_path, {**order, "task": "x" * TASK_MAX}) == ("work order", True, 0)
    with pytest.raises(ConfigError, match="b.toml cannot be used"):
        check(tmp_path, "default_backend = 3\n", "b.toml")


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    order = msgspec.to_builtins(SAMPLE_ORDER)
    assert check(tmp_path, {**order, "later": 1}) == ("work order", False, 1)
    assert check(tmp_path, {**order, "id": "7"}) == ("work order", False, 1)
    assert check(tmp_path, {**order, "task": " "}) == ("work order", False, 1)
    assert check(tmp_path, {"task": "t"})[:2] == ("work order", False)
    receipt = msgspec.to_builtins(SAMPLE_RECEIPT)
    later = {**receipt, "meta": {**receipt["meta"], "contract_version": "abp/v9.9"}}
    assert check(tmp_path, later) == ("receipt", False, 1)
    assert check(tmp_path, {**order, "task": "x" * (TASK_MAX + 1)}) == ("work order", False, 1)
    assert check(tmp_path, {"receipt_sha256": "x"})[:2] == ("receipt", False)
    assert check(tmp_path, {**receipt, "meta": {**receipt["meta"], "run_id": "7"}}) == ("receipt", False, 1)
    assert check(tmp_path, {"deny_read": [], "later": 1}) == ("policy", False, 1)
    assert check(tmp_path, {"deny_read": "x"})[:2] == ("policy", False)
    for nothing in ({"x": 1}, [], {"t": "run"}, {"t": "event", "work_order": order}):
        with pytest.raises(ConfigError, match="f.json is not a work order, receipt, policy or backplane.toml"):
            check(tmp_path, nothing)
    with pytest.raises(ConfigError, match="f.json cannot be read"):
        check(tmp_path, "nonsense")

"""Files that a strict peer would take, and others."""

import json
from pathlib import Path

import msgspec
import pytest

from treadle.errors import ConfigError
from treadle.host.validate import check_file
from treadle.testing.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT


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
    assert check(tmp_path, 'default_backend = "x"\n', "backplane.toml") == ("backplane.toml", True, 0)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    order = msgspec.to_builtins(SAMPLE_ORDER)
    assert check(tmp_path, {**order, "later": 1}) == ("work order", False, 1)
    assert check(tmp_path, {**order, "id": "7"}) == ("work order", False, 1)
    assert check(tmp_path, {**order, "task": " "}) == ("work order", False, 1)
    assert check(tmp_path, {"task": "t"})[:2] == ("work order", False)
    receipt = msgspec.to_builtins(SAMPLE_RECEIPT)
    later = {**receipt, "meta": {**receipt["meta"], "contract_version": "abp/v9.9"}}
    assert check(tmp_path, later) == ("receipt", False, 1)
    for nothing in ({"x": 1}, [], "nonsense"):
        with pytest.raises(ConfigError):
            check(tmp_path, nothing)

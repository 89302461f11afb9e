"""The sample shop: a repository with four mistakes, and an order for each."""

import os
import subprocess
from pathlib import Path

from treadle.fleet import sample


def test_the_shop_is_a_repository_whose_check_fails_and_each_order_has_its_script(tmp_path: Path) -> None:
    shop = sample.make_repository(tmp_path / "shop")
    assert subprocess.run(sample.CHECK.split(), cwd=shop, capture_output=True, timeout=60).returncode != 0
    tip = subprocess.run(["git", "rev-parse", "HEAD"], cwd=shop, capture_output=True, text=True, check=True).stdout
    for name in sample.ORDERS:
        spec = sample.spec_of(name, shop)
        assert (spec.base, spec.root, spec.title) == (tip.strip(), str(shop), name)
        assert spec.claims and os.path.isfile(str(spec.model).removeprefix("scripted:"))
        assert all((shop / path).is_file() for path in spec.claims)
        assert (spec.task, spec.by, spec.mode) == (
            sample.ORDERS[name]["task"],
            "demo",
            "auto-edit" if name == "stock" else "full-auto",
        )
        assert spec.created > 1e9
    assert (shop / ".gitignore").read_text() == "__pycache__/\n" and not list(shop.glob("*.txt"))
    about = subprocess.run(["git", "log", "--format=%s"], cwd=shop, capture_output=True, text=True, check=True).stdout
    assert about == "A shop with four mistakes\n"


def test_the_first_order_gets_a_shop_of_its_own_and_replaces_none(tmp_path: Path) -> None:
    first, second = (sample.first_order(str(tmp_path), by="me") for _ in range(2))
    assert [Path(str(each.root)).name for each in (first, second)] == ["shop-1", "shop-2"]
    assert first.title == "stock" and first.mode == "auto-edit" and first.by == "me" and first.id != second.id

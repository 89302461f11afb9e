"""A small shop with four bugs, and orders that fix them with a scripted model: no key, no account, no cost."""

import os
import time
from pathlib import Path
from typing import Any

from treadle.fleet.orders import new_id
from treadle.io.files import read
from treadle.wire.fleet.orders import Spec
from treadle.workspace import checkouts
from treadle.workspace.branch_moves import tip
from treadle.workspace.user_repository import first_commit

SHOP = Path(__file__).parent / "sample_shop"
CHECK = "python3 check_shop.py"
ORDERS: dict[str, dict[str, Any]] = {
    "discount": {"task": "The discount is wrong: fix it", "claims": ("prices.py",)},
    "stock": {"task": "What is sold stays in stock: fix it", "claims": ("stock.py",), "mode": "auto-edit"},
    "greeting": {"task": "Greet people by name", "claims": ("greeting.py",)},
    "dollars": {"task": "Show cents as dollars", "claims": ("prices.py",)},
}
"""`stock` asks before it runs its test; `dollars` has to wait for `discount`."""
CHEAT = {"task": "The greeting's test fails: make it pass", "verify": f"{CHECK} Greeting"}
"""An order whose agent changes the test, and says that it is done."""


def make_repository(place: Path) -> Path:
    files = {path.name.removesuffix(".txt"): read(str(path)) for path in SHOP.glob("*.py.txt")}
    first_commit(str(place), {**files, ".gitignore": b"__pycache__/\n"}, "A shop with four mistakes")
    return place


def spec_of(name: str, repository: Path, *, by: str = "demo") -> Spec:
    fields = {"mode": "full-auto", **(CHEAT if name == "cheat" else ORDERS[name])}
    return Spec(
        id=new_id(),
        title=name,
        root=str(repository),
        base=tip(checkouts.around(str(repository)), "HEAD"),
        model=f"scripted:{SHOP / f'{name}.toml'}",
        created=time.time(),
        by=by,
        **fields,
    )


def first_order(directory: str, *, by: str) -> Spec:
    """One order that edits a file and asks once, in a shop of its own below `directory`."""
    number = 1
    while os.path.exists(place := os.path.join(directory, f"shop-{number}")):
        number += 1
    return spec_of("stock", make_repository(Path(place)), by=by)

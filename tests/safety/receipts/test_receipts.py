"""No statement of a receipt is false, whatever the agent did and said: see the README beside this file.

A few attacks in each run of the tests; with SOAK_RECEIPTS=all, all of them in all modes (`make soak-receipts`).
"""

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need
from tests.io.sandbox.rooms import shown_place
from tests.safety.receipts.corpus import Attack, World, attacks, carry_out, false_statements
from treadle.errors import StorageError
from treadle.io.descriptors import remove_tree
from treadle.io.sandbox import methods
from treadle.workspace.workspace import WorkspaceMode

ALL = [(attack, mode, confined) for attack in attacks() for mode in attack.modes for confined in (True, False)]
SAMPLE = 8


def chosen() -> list[tuple[Attack, WorkspaceMode, bool]]:
    if os.environ.get("SOAK_RECEIPTS") == "all":
        return ALL
    if only := os.environ.get("SOAK_RECEIPTS"):
        return [one for one in ALL if only in f"{one[0].file}: {one[0].name}"]
    return random.Random(os.environ.get("SOAK_SEED", "1")).sample([one for one in ALL if one[2]], SAMPLE)


def named(one: tuple[Attack, WorkspaceMode, bool]) -> str:
    attack, mode, confined = one
    return f"{attack.name}-{mode}-{'confined' if confined else 'free'}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    # Not below /tmp, of which a sandbox has its own: what is tried is what it does with places that it shows.
    base = Path(tempfile.mkdtemp(dir=shown_place(), prefix="attack-")).resolve()
    # Where an attack has no repository of its own, git finds the nearest one above: this, not the one of these tests.
    subprocess.run(["git", "init", "-q", str(base)], check=True)
    monkeypatch.setenv("HOME", str(base / "home"))
    monkeypatch.setenv("TREADLE_HOME", str(base / "home" / "treadle"))
    made = World(base)
    yield made
    made.close()
    remove_tree(str(base))
    for left in Path("/tmp").glob(f"{made.mark}*"):
        left.unlink()


@pytest.mark.parametrize("one", chosen(), ids=named)
@pytest.mark.slow
async def test_no_statement_is_false(world: World, one: tuple[Attack, WorkspaceMode, bool]) -> None:
    attack, mode, confined = one
    need("git")
    if confined and methods.available().method != "bubblewrap":
        pytest.skip("needs bubblewrap")
    try:
        receipt, run, job = await carry_out(world, attack, mode, confined)
    except StorageError as error:
        # Who is not confined can put a receipt where ours belongs; then the host says so and writes none.
        assert not confined and "has a receipt already" in str(error)
        return
    assert list(false_statements(world, attack, receipt, run, job, confined)) == []


def test_there_are_enough_attacks_and_each_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in attacks()]
    assert len(names) >= 150 and len(set(names)) == len(names)


LIES: list[tuple[str, Any]] = [
    ("observed.workspace.result_tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
    ("observed.workspace.confined_by", None),
    ("observed.files", []),
    ("observed.hidden", []),
    ("differences", []),
    ("observed.confinement", None),
]


@pytest.mark.parametrize(("place", "lie"), LIES)
@pytest.mark.slow
async def test_the_judge_finds_a_statement_that_is_false(world: World, place: str, lie: Any) -> None:
    if methods.available().method != "bubblewrap":
        pytest.skip("needs bubblewrap")
    attack = Attack(name="x", do="echo x > a.txt; echo y > made.log", lies=True)
    receipt, run, job = await carry_out(world, attack, "staged", True)
    assert list(false_statements(world, attack, receipt, run, job, True)) == []
    *outer, last = place.split(".")
    inside = receipt.usage_raw["treadle"]
    for name in outer:
        inside = inside[name]
    inside[last] = lie
    found = [text for text in false_statements(world, attack, receipt, run, job, True) if "hash" not in text]
    assert found

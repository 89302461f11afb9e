"""Files that other programs obey later: what a confined command does to them in a person's own directory, at the top
and deep in it. Judged by what is there afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import sh
from tests.safety import as_nobody, obeyed
from tests.safety.obeyed import ATTACK, DEPTHS, every
from treadle.errors import Denied
from treadle.io.paths import DISK
from treadle.io.sandbox import landlock, methods
from treadle.policy.protected import is_protected
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement, Rules

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


@pytest.fixture
def confining(tmp_path: Path) -> Iterator[Confining]:
    made = obeyed.confining(tmp_path, Confinement(use="on", network="off"))
    yield made
    made.close()


@pytest.mark.slow
async def test_what_exists_is_not_changed_moved_or_removed(tmp_path: Path, confining: Confining) -> None:
    for name in every():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
        assert is_protected(str(tmp_path / name)), "the file tools ask about it too"
    (tmp_path / "attack.py").write_text(ATTACK)
    said = await sh(confining.now(), f"python3 -I -S attack.py {' '.join(every())}", tmp_path)
    assert said.code == 0
    assert {name: (tmp_path / name).read_text() for name in every()} == dict.fromkeys(every(), "as it was"), said


async def test_what_is_new_is_moved_aside_and_told(tmp_path: Path, confining: Confining) -> None:
    (tmp_path / "src").mkdir()
    check = confining.watching(None)()
    above = " ".join({os.path.dirname(name) or "." for name in every()})
    made = f"mkdir -p {above}\n" + "\n".join(f"echo evil > {name}" for name in every())
    await sh(
        confining.now(), f"{made}\nmkdir -p node_modules/a; echo x > node_modules/a/.npmrc; echo x > src/new", tmp_path
    )
    with pytest.raises(Denied) as told:
        check()
    left = [name for name in every() if os.path.lexists(tmp_path / name)]
    assert left == []
    assert (tmp_path / "src" / "new").exists() and (tmp_path / "node_modules" / "a" / ".npmrc").exists()
    assert all(f"{tmp_path}/{depth}.husky" in str(told.value) for depth in DEPTHS)


async def test_what_a_persons_rule_names_is_written(tmp_path: Path, confining: Confining) -> None:
    (tmp_path / "AGENTS.md").write_text("old")
    rules = Rules(allow=("Write(AGENTS.md)", "Write(.github/workflows/**)"))
    confining.obey(RuleSet(rules, str(tmp_path), DISK), "full-auto")
    check = confining.watching(None)()
    done = await sh(
        confining.now(), "echo new > AGENTS.md; mkdir -p .github/workflows; echo x > .github/workflows/a.yml", tmp_path
    )
    check()
    assert (tmp_path / "AGENTS.md").read_text() == "new\n" and (tmp_path / ".github/workflows/a.yml").exists(), done


async def test_an_order_changes_them_in_its_own_directory(tmp_path: Path, confining: Confining) -> None:
    (tmp_path / "AGENTS.md").write_text("old")
    confining.obey(RuleSet(Rules(), str(tmp_path), DISK), None)
    check = confining.watching(None)()
    await sh(
        confining.now(), "echo new > AGENTS.md; mkdir -p .github/workflows; echo x > .github/workflows/a.yml", tmp_path
    )
    check()
    assert (tmp_path / "AGENTS.md").read_text() == "new\n" and (tmp_path / ".github/workflows/a.yml").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_is_kept_from_them_and_from_the_network_too() -> None:
    with as_nobody.room() as base:
        found = as_nobody.as_another(base, [obeyed.__file__, str(base / "world")])
    assert found == {"changed": [], "left": [], "hidden": [], "sent": ["free\n"]}


@pytest.mark.slow
@pytest.mark.skipif(landlock.problem() is not None, reason="needs Landlock")
def test_with_landlock_they_are_as_they_were_afterwards_and_no_network_is_promised(tmp_path: Path) -> None:
    """It cannot keep a file inside what may be written, so what was done to one is undone when the command ends."""
    found = as_nobody.with_landlock(tmp_path, [obeyed.__file__, str(tmp_path / "world")])
    assert found == {"changed": [], "left": [], "hidden": [], "sent": ["refused to run"]}

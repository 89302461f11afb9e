"""What a change does to its own tests does not let it land."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.finished import Finished, clean
from tests.landing.trains import empty, run
from tests.tiers import spread
from tests.verification.test_cheats import BASE, FIXED, TEST, WRONG
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import train
from treadle.landing.train import Train
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import TrainRecord

UNITTEST = f"{sys.executable} -m unittest -q"
SKIPPED = TEST.replace("    def test_adds(", "    @unittest.skip('later')\n    def test_adds(")
CONFIG = ".treadle/config.toml"
RENAMED = TEST.replace("test_adds_nothing", "test_adds_zero")


def project(repository: Path, finished: Finished, more: dict[str, str] | None = None) -> None:
    """The branch gets a program with a test, which fails."""
    for path, text in {**BASE, **(more or {})}.items():
        (repository / path).parent.mkdir(exist_ok=True)
        (repository / path).write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a program")
    git(finished.clone, "fetch", "-q", "origin")
    finished.base = git(repository, "rev-parse", "HEAD")


@pytest.mark.slow
async def test_work_that_turns_its_check_green_does_not_land_and_work_that_fixes_the_program_does(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    project(repository, finished)
    more = TEST.replace("Adding", "AddingMore")
    cheats = {
        "skips": {"test_calc.py": SKIPPED},
        "shadows": {"unittest.py": "import sys\nsys.exit(0)\n"},
        "ends": {"calc.py": "import os\n\n\ndef add(a, b):\n    os._exit(0)\n"},
    }
    names = [await finished.order(name, dict(files)) for name, files in cheats.items()]
    honest = await finished.order("honest", {**FIXED, "test_more.py": more})
    record = await run(bus, repository, *names, honest, verify=UNITTEST)
    out = {each.order: each for each in record.left_out}
    assert record.landed == 1 and (repository / "test_more.py").exists() and clean(repository)
    assert {name: each.kind for name, each in out.items()} == {"skips": "red", "shadows": "judge", "ends": "red"}
    assert "would be loaded in place of unittest" in out["shadows"].why


@pytest.mark.slow
async def test_a_test_that_is_changed_lands_when_a_person_who_saw_the_change_agrees_or_its_order_allows_it(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    project(repository, finished)
    asked = await finished.order("asked", {**FIXED, "test_calc.py": RENAMED})
    name = await train.ensure(bus, str(repository), "")

    async def driven(until: Callable[[TrainRecord], bool]) -> TrainRecord:
        loaded, _ = await train.load(bus, name)
        return await Train(bus, name, loaded).run(until)

    await train.board(bus, name, [asked])
    record = await driven(lambda found: any(each.by for each in found.back))
    (entry,) = record.back
    question = (await client.get_spec(bus, entry.by)).task
    assert record.landed == 0 and (record.verify, record.verify_by) == ("make test", "project")
    assert entry.why.startswith("it changes test_calc.py, which is a test") and "test_adds_zero" in question
    assert "calc.py" in question and "return a + b" not in question, "of the change, it is asked about the judge alone"
    await train.board(bus, name, [await finished.order("other", dict(FIXED))])
    assert (await driven(empty)).landed == 1, "the question stops nothing else"
    answer = Order(id=entry.by, state="done", changed=1.0, title="", result={"decision": "allow"})
    await bus.put(f"order.{entry.by}", encode(answer))
    assert (await driven(lambda found: found.landed > 1)).landed == 2

    fields: dict[str, object] = {"may_change": ("test_*.py",)}
    finished.base = git(repository, "rev-parse", "HEAD")
    git(finished.clone, "fetch", "-q", "origin")
    allowed = await finished.order("allowed", {"test_calc.py": TEST}, **fields)
    assert (await run(bus, repository, allowed, verify=UNITTEST)).landed == 3


@pytest.mark.slow
@pytest.mark.parametrize("by", spread(["branch", "a misspelt branch", "order", "train"], quick=0, slow=2))
async def test_work_that_shows_less_than_is_required_lands_when_a_person_agrees(
    by: str, bus: Bus, finished: Finished, repository: Path
) -> None:
    wants = {"branch": "tested", "a misspelt branch": "testd"}.get(by)
    project(repository, finished, {**FIXED, **({CONFIG: f"[verify]\nrequire = '{wants}'\n"} if wants else {})})
    fields = {"require": "tested"} if by == "order" else {}
    more = "from calc import less\n" + TEST.replace("calc import add", "calc import less as add").replace("5", "-1")
    added = {"calc.py": f"{FIXED['calc.py']}\n\n{WRONG.replace('add', 'less')}", "test_more.py": more}
    bare = await finished.order("bare", {"NEWS.md": "It adds.\n"}, **fields)
    tested = await finished.order("tested", added, **fields)
    name = await train.ensure(bus, str(repository), "")
    await train.change(bus, name, lambda found: replace(found, require="tested" if by == "train" else ""))
    await train.board(bus, name, [bare, tested])

    async def driven(until: Callable[[TrainRecord], bool]) -> TrainRecord:
        return await Train(bus, name, (await train.load(bus, name))[0]).run(until)

    asked = 2 if wants == "testd" else 1
    record = await driven(lambda found: not found.queue and all(each.by for each in found.back))
    assert (record.landed, len(record.back)) == (2 - asked, asked)
    entry = next(each for each in record.back if each.first == "bare")
    question = (await client.get_spec(bus, entry.by)).task
    assert "its check shows `passed`, and `" in question and " is required" in question
    answer = Order(id=entry.by, state="done", changed=1.0, title="", result={"decision": "allow"})
    await bus.put(f"order.{entry.by}", encode(answer))
    assert (await driven(lambda found: not found.queue and len(found.back) < asked)).landed == 3 - asked


@pytest.mark.slow
async def test_a_set_up_that_a_person_gives_stays_with_the_check_that_the_project_has(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    project(repository, finished)
    name = await train.ensure(bus, str(repository), "", setup="touch before")
    for number, setup in enumerate(("touch before", "touch after")):
        await train.ensure(bus, str(repository), "", setup=setup)
        await train.board(bus, name, [await finished.order(f"o{number}", {**FIXED, f"{number}.txt": "x"})])
        loaded, _ = await train.load(bus, name)
        record = await Train(bus, name, loaded).run(empty)
        assert (record.landed, record.verify, record.setup) == (number + 1, "make test", setup)
        await train.change(bus, name, lambda found: replace(found, verify_by="project", setup=""))

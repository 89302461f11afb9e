"""Planted faults: each kind changes the program, and a fault is found again wherever its function has gone."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import mutate
from tests.reached import Reach
from treadle.redact import is_secret_name

PROGRAM = """
def allowed(name, rules):
    if name in rules and rules:
        log(name, rules)
        return True
    with locked(name):
        return redacted(name) == "x"


def made(path, root, bus):
    if not f"{path}/".startswith(f"{root}/"):
        raise ValueError
    os.mkdir(path, 0o700)
    bus.put(path, expect=3)
"""


def planted(tmp_path: Path) -> dict[str, str]:
    module = tmp_path / "m.py"
    module.write_text(PROGRAM)
    found = list(mutate.faults(module))
    return {f"{fault.kind}: {fault.text}": place.source(fault.kind) for fault, place in found}


@pytest.mark.parametrize(
    "fault, part",
    [
        ("condition negated: name in rules and rules", "if not (name in rules and rules)"),
        ("comparison changed: redacted(name) == 'x'", "redacted(name) != 'x'"),
        ("or for and: name in rules and rules", "name in rules or rules"),
        ("false for true: return True", "return False"),
        ("arguments swapped: log(name, rules)", "log(rules, name)"),
        ("call dropped: log(name, rules)", "None\n        return True"),
        ("guard removed: redacted(name)", "(lambda given: given)(name) == 'x'"),
        ("with removed: locked(name)", "nullcontext()"),
        ("taken for true: name in rules", "if True and rules"),
        ("taken for false: rules", "if name in rules and False"),
        ("separator dropped: f'{root}/'", """f'{path}/'.startswith(f'{root}')"""),
        ("no error: raise ValueError", "pass\n    os.mkdir"),
        ("mode opened: os.mkdir(path, 448)", "os.mkdir(path, 511)"),
        ("not expected: expect=3", "bus.put(path, expect=None)"),
    ],
)
def test_each_kind_of_fault_is_one_change_and_still_a_program(tmp_path: Path, fault: str, part: str) -> None:
    source = planted(tmp_path)[fault]
    ast.parse(source)
    assert part in source and source != ast.unparse(ast.parse(PROGRAM))


def kinds(module: Path) -> list[str]:
    return [fault.kind for fault, _ in mutate.faults(module) if fault.kind not in mutate.AT_GUARDS]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("x = max(a, b)", []),
        ("x = max(a, b, key=c)", ["arguments swapped"]),
        ("x = names.get(a, a)", []),
        ("x = other(a, b)", ["arguments swapped"]),
        ('@click.option("--idle", "minutes")\ndef f(): ...', []),
        ('@click.option("-f", "--force")\ndef f(): ...', []),
        ('@click.option("--force", "--anyway")\ndef f(): ...', ["arguments swapped"]),
        ("x = time.monotonic() < end", []),
        ("x = time.monotonic() == end", ["comparison changed"]),
        ("x = now < end", ["comparison changed"]),
    ],
)
def test_what_changes_nothing_is_no_fault(tmp_path: Path, program: str, expected: list[str]) -> None:
    module = tmp_path / "m.py"
    module.write_text(program)
    assert kinds(module) == expected


MOVED = """
from treadle import rules
if rules:
    class Guard:
        def passes(self, path):
            return path in rules.allowed or not path
"""


def moved(tmp_path: Path, *texts: str) -> tuple[mutate.Fault, list[Path]]:
    """A fault of a program, and modules with these texts in which it is looked for."""
    before = tmp_path / "before.py"
    before.write_text(MOVED)
    wanted = next(fault for fault, _ in mutate.faults(before) if fault.kind == "and for or")
    modules = []
    for number, text in enumerate(texts):
        modules.append(tmp_path / f"m{number}.py")
        modules[-1].write_text(text)
    return wanted, modules


@pytest.mark.parametrize(
    ("texts", "places"),
    [
        ((MOVED,), 1),
        (
            ("x = 1", MOVED.replace("rules.allowed", "policy.rules.allowed").replace("if rules", "def f(): ...\nif 1")),
            1,
        ),
        ((MOVED.replace("passes", "goes"),), 0),
        ((MOVED.replace(" or ", " and "),), 0),
        ((MOVED, MOVED), 2),
    ],
    ids=["where it was", "elsewhere, with names from elsewhere", "renamed", "rewritten", "twice"],
)
def test_a_fault_is_found_where_its_function_is_now(tmp_path: Path, texts: tuple[str, ...], places: int) -> None:
    wanted, modules = moved(tmp_path, *texts)
    assert wanted.function == "Guard.passes" and len(mutate.found([wanted], modules)[wanted]) == places


def test_of_two_faults_with_one_name_each_is_in_its_own_room() -> None:
    modules = [mutate.PACKAGE / name for name in ("policy/rules.py", "io/sandbox/places.py")]
    both = [fault for fault in mutate.listed()["containment"] if fault.function == "is_under"]
    elsewhere = both[0]._replace(room="elsewhere")
    assert sorted(both) == sorted({fault for module in modules for fault, _ in mutate.faults(module)} & {*both})
    for wanted in (both, [elsewhere, both[1]]):
        found = mutate.found(wanted, modules)
        assert sorted(place.module for places in found.values() for place in places) == sorted(modules)


@pytest.mark.slow
def test_every_fault_of_the_list_is_there_once() -> None:
    groups = mutate.listed()
    faults = [fault for group in groups.values() for fault in group]
    assert len(groups.pop("random")) == 100 and sum(map(len, groups.values())) == 60 == len(faults) - 100
    places = mutate.found(faults, mutate.all_modules())
    assert [mutate.written("", fault) for fault in faults if len(places[fault]) != 1] == []


def test_a_name_of_a_secret_is_told_from_others() -> None:
    """What the next test breaks."""
    assert is_secret_name("API_KEY") and not is_secret_name("LANG")


@pytest.mark.slow
def test_a_fault_is_noticed_by_a_test_that_reaches_it(tmp_path: Path) -> None:
    held = f"tests/{Path(__file__).name}::test_a_name_of_a_secret_is_told_from_others"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.reached"]
    subprocess.run([*command, "--reached", str(tmp_path / "reached"), held], cwd=mutate.TOP, check=True, timeout=100)
    fault, place = next(mutate.faults(mutate.PACKAGE / "redact.py", {"is_secret_name"}))
    reach = Reach(tmp_path / "reached")
    assert reach.reaching(place.module, place.lines, place.function, "") == [held]
    assert reach.reaching(place.module, range(1, 2), range(0), "") == [], "loading a module is no test of it"
    sources = tmp_path / "src"
    shutil.copytree(mutate.SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    assert mutate.judged(fault, [place], reach, sources) == mutate.Outcome(fault, "noticed", held)
    copy = sources / place.module.relative_to(mutate.SOURCES)
    assert copy.read_text() == place.module.read_text(), "the copy is put back"
    assert mutate.noticed(place.module, place.module.read_text(), sources, [held]) == ""
    copy.write_text(place.source(fault.kind))
    assert mutate.noticed(place.module, copy.read_text(), sources, [held]) == "", "it fails without the fault, too"

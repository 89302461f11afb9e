"""Planted faults: each kind changes the program, and what a test holds is told from what none looks at."""

import ast
from pathlib import Path

import pytest

from tests import mutate

PROGRAM = """
def allowed(name, rules):
    if name in rules and rules:
        log(name, rules)
        return True
    with locked(name):
        return redacted(name) == "x"
"""


def planted(tmp_path: Path) -> dict[str, str]:
    module = tmp_path / "m.py"
    module.write_text(PROGRAM)
    return {fault.kind: fault.source() for fault in mutate.faults(module)}


@pytest.mark.parametrize(
    "kind, part",
    [
        ("condition negated", "if not (name in rules and rules)"),
        ("comparison changed", "redacted(name) != 'x'"),
        ("or for and", "name in rules or rules"),
        ("false for true", "return False"),
        ("arguments swapped", "log(rules, name)"),
        ("call dropped", "None\n        return True"),
        ("guard removed", "(lambda given: given)(name) == 'x'"),
        ("with removed", "nullcontext()"),
    ],
)
def test_each_kind_of_fault_is_one_change_and_still_a_program(tmp_path: Path, kind: str, part: str) -> None:
    source = planted(tmp_path)[kind]
    ast.parse(source)
    assert part in source and source != ast.unparse(ast.parse(PROGRAM))


def test_options_of_a_class_are_no_place_for_a_fault(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("class A(B, frozen=True):\n    loud: bool = False\n")
    assert [(fault.line, fault.kind) for fault in mutate.faults(module)] == [(2, "true for false")]


@pytest.mark.parametrize(
    ("program", "kinds"),
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
def test_what_changes_nothing_is_no_fault(tmp_path: Path, program: str, kinds: list[str]) -> None:
    module = tmp_path / "m.py"
    module.write_text(program)
    assert [fault.kind for fault in mutate.faults(module)] == kinds


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    modules = sorted((mutate.PACKAGE / "wire" / "fleet").glob("*.py"))
    first, again, other = (mutate.chosen(modules, 5, seed) for seed in (3, 3, 4))
    assert first == again != other and len(first) == 5


def test_sample_conversations_are_left_alone() -> None:
    assert list(mutate.faults(mutate.SAMPLES / "fleet.py"))
    assert mutate.chosen(sorted(mutate.SAMPLES.glob("*.py")), 5, 1) == []


def test_each_module_has_its_share_of_the_faults() -> None:
    modules = sorted((mutate.PACKAGE / "wire" / "fleet").glob("*.py"))
    shares = [fault.module for fault in mutate.some_of_each(modules, 2, 1)]
    assert {shares.count(module) for module in set(shares)} == {2} and len(set(shares)) > 3


def test_mypy_refuses_what_has_the_wrong_type_in_the_module_and_where_it_is_used(tmp_path: Path) -> None:
    module = mutate.PACKAGE / "redact.py"
    package = tmp_path / "src" / "treadle"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / module.name).touch()
    (package / "user.py").write_text("from treadle.redact import day\nafter = day + 1\n")
    assert not mutate.refused(module, "day: int = 1\n", tmp_path / "src")
    assert mutate.refused(module, "day: int = 'x'\n", tmp_path / "src")
    assert mutate.refused(module, "day: str = 'x'\n", tmp_path / "src")


def test_the_table_counts_what_passed_its_own_test_file_by_room() -> None:
    score = [mutate.Outcome("wire", by) for by in ("own", "own", "types", "")] + [mutate.Outcome("io", "own")]
    assert mutate._table(score).splitlines()[2:] == [
        "| `io` | 1 | 0 | 100 % |",
        "| `wire` | 4 | 2 | 50 % |",
        "| together | 5 | 2 | 60 % |",
    ]


def test_what_its_test_holds_is_noticed_and_what_no_test_looks_at_is_not(tmp_path: Path) -> None:
    module = mutate.PACKAGE / "wire" / "common" / "timestamps.py"
    sources = tmp_path / "src"
    place = sources / module.relative_to(mutate.SOURCES)
    place.parent.mkdir(parents=True)
    place.write_text(module.read_text())
    test = tmp_path / "test_it.py"
    test.write_text(f"def test_it():\n    assert 'kept' in open({str(place)!r}).read()\n")
    assert not mutate.noticed(module, "# kept", sources, [str(test)])
    assert mutate.noticed(module, "# gone", sources, [str(test)])
    assert place.read_text() == module.read_text(), "the copy is put back"

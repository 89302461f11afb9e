"""Where cars are built: what is taken of an order, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.finished import Finished, clean
from tests.landing.trains import empty, run
from tests.workspace.repositories import make
from treadle.errors import WorkspaceError
from treadle.fleet.engine.bus import Bus
from treadle.landing import bench as bench_module
from treadle.landing import train
from treadle.landing.bench import Bench, BuiltCar
from treadle.landing.train import Train
from treadle.wire.fleet.train import QueuedChange
from treadle.workspace.checkouts import around
from treadle.workspace.store import TreeMerge


async def test_a_change_with_conflict_markers_or_to_its_own_check_is_refused(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    marked = await finished.order("marked", {"c.txt": "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"})
    judge = await finished.order("judge", {"check.sh": "true\n"})
    record = await run(bus, repository, marked, judge, verify="sh ./check.sh || test ! -e check.sh")
    reasons = {each.order: each.why for each in record.left_out}
    assert record.landed == 0 and reasons[marked] == "it adds conflict markers"
    assert reasons[judge] == "it changes check.sh, which the check names"
    name = train.name_of(str(repository / ".git"), "main")
    await train.board(bus, name, [judge], anyway=True)
    loaded, _ = await train.load(bus, name)
    assert (await Train(bus, name, loaded).run(empty)).landed == 1


async def test_what_an_order_does_not_state_is_not_landed_though_its_commit_claims_to_have_merged_the_branch(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    (repository / "b.txt").write_text("fixed\n")
    git(repository, "commit", "-qam", "a fix on the branch")
    git(finished.clone, "fetch", "-q", "origin")

    class Dropping(Finished):
        def commit(self, name: str) -> None:
            git(self.clone, "commit", "-qm", name)
            git(self.clone, "merge", "-q", "-s", "ours", "-m", "merged", "origin/main")

    finished.__class__ = Dropping
    one = await finished.order("one", {"a.txt": "two\n"})
    record = await run(bus, repository, one, verify="true")
    (out,) = record.left_out
    assert record.landed == 0 and out.why == "it would also change b.txt, which its order does not state"
    assert (repository / "b.txt").read_text() == "fixed\n"


async def test_what_the_persons_own_git_obeys_is_left_out_and_stops_no_other(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    git(repository, "config", "core.hooksPath", "hooks")
    hook = await finished.order("hook", {"hooks/post-checkout": "x\n"})
    one = await finished.order("one", {"one.txt": "x\n"})
    record = await run(bus, repository, hook, one)
    (out,) = record.left_out
    assert record.landed == 1 and out.order == hook and "hooks/post-checkout, which is in the directory of" in out.why


@pytest.mark.slow
async def test_a_check_has_the_files_of_a_submodule_that_the_persons_checkout_has(
    bus: Bus, repository: Path, tmp_path: Path
) -> None:
    lib = tmp_path / "lib"
    git(tmp_path, "init", "-q", "-b", "main", str(lib))
    versions = []
    for word in ("one", "two"):
        (lib / "word.txt").write_text(f"{word}\n")
        git(lib, "add", "-A")
        git(lib, "commit", "-qm", word)
        versions.append(git(lib, "rev-parse", "HEAD"))
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib), "lib")
    git(repository, "commit", "-qm", "a submodule")
    finished = Finished(bus, repository, tmp_path)
    usual, named = finished.commit, ""

    def moves(name: str) -> None:
        git(finished.clone, "update-index", "--cacheinfo", f"160000,{named},lib")
        usual(name)

    finished.commit = moves  # type: ignore[method-assign]
    named = versions[0]
    older = await finished.order("older", {"older.txt": "x\n"}, on_red="drop")
    named = "3" * 40
    nowhere = await finished.order("nowhere", {"nowhere.txt": "x\n"}, on_red="drop")
    check = "grep -qE 'one|two' lib/word.txt && ! touch lib/new.txt && (! ls older* || grep -q one lib/word.txt)"
    record = await run(bus, repository, nowhere, verify=check)
    (out,) = record.left_out
    assert out.kind == "red" and "no files for the submodule lib at 333333333333" in out.output
    record = await run(bus, repository, older, verify=check)
    assert record.landed == 1 and record.paused is None, record


async def test_a_large_files_pointer_and_a_submodule_land_as_they_are_and_no_filter_runs(
    bus: Bus, repository: Path, tmp_path: Path
) -> None:
    """The person's own git brings what they stand for: `git lfs pull`, `git submodule update`."""
    canary = tmp_path / "canary"
    git(repository, "config", "filter.lfs.smudge", f"touch {canary}; cat")
    git(repository, "config", "filter.lfs.process", f"touch {canary}; cat")
    (repository / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(repository, "add", "-A")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    (repository / "module").mkdir()
    git(repository, "commit", "-qm", "large files and a submodule")
    canary.unlink(missing_ok=True)
    finished = Finished(bus, repository, tmp_path)
    pointer = await finished.order("pointer", {"new.bin": "version https://git-lfs.github.com/spec/v1\n"})
    usual = finished.commit

    def moves_the_submodule(name: str) -> None:
        git(finished.clone, "update-index", "--cacheinfo", f"160000,{'2' * 40},module")
        usual(name)

    finished.commit = moves_the_submodule  # type: ignore[method-assign]
    module = await finished.order("module", {"note.txt": "moved\n"})
    record = await run(bus, repository, pointer, module)
    assert record.landed == 2 and record.paused is None, record
    assert (repository / "new.bin").read_text().startswith("version https://git-lfs") and not canary.exists()
    assert git(repository, "ls-tree", "main", "module").split()[2] == "2" * 40
    assert list((repository / "module").iterdir()) == [] and clean(repository)


class Building:
    """A bench over a repository, and changes that lie in it beside its branch."""

    def __init__(self, place: Path) -> None:
        self.repository = make(place / "r")
        self.top = Path(self.repository.top)
        self.base = self.repository.commit()
        self.bench = Bench("t", around(self.repository.top), "main")

    def change(self, name: str, files: dict[str, str | None], **fields: Any) -> QueuedChange:
        self.repository.git("checkout", "-q", "--detach", self.base)
        for path, text in files.items():
            (self.top / path).parent.mkdir(parents=True, exist_ok=True)
            (self.top / path).unlink() if text is None else (self.top / path).write_text(text)
        self.repository.git("add", "-A")
        self.repository.git("commit", "-qm", name)
        commit = self.repository.commit()
        self.repository.git("checkout", "-q", "main")
        return QueuedChange(order=name, commit=commit, **{"base": self.base, **fields})

    def build(self, *changes: QueuedChange, verify: str = "true", on: str = "", apart: bool = False) -> BuiltCar:
        tip = self.repository.commit("main")
        return self.bench.build(changes, on or tip, tip, verify, apart=apart)

    def refused(self, change: QueuedChange, verify: str = "true") -> tuple[str, str]:
        built = self.build(change, verify=verify)
        assert built.car is None and built.blocked == ()
        return built.refused[change.order]


@pytest.fixture
def building(tmp_path: Path) -> Building:
    return Building(tmp_path)


def test_a_car_has_what_it_was_built_on_and_its_changes_as_parents(building: Building) -> None:
    one, two = building.change("one", {"one.txt": "1"}, title="first"), building.change("two", {"two.txt": "2"})
    built = building.build(one, two, apart=True)
    assert built.car is not None and (built.blocked, built.refused, built.conflicts) == ((), {}, {})
    car, store = built.car, building.bench.store
    assert (car.orders, car.on, car.apart) == (("one", "two"), building.base, True)
    shown = store.git("log", "-1", "--format=%P%n%B", car.commit, lent=True).stdout.decode().split("\n")
    assert shown[0].split() == [building.base, one.commit, two.commit] and shown[1] == "Land 2 orders"
    assert f"Verified-Tree: {car.tree}" in shown and store.tree_of(car.commit) == car.tree
    assert store.ref(f"refs/train/{car.commit}") == car.commit and building.build(one, two, apart=True) == built
    building.bench.forget([car.commit])
    assert store.ref(f"refs/train/{car.commit}") is None
    plain = building.build(one, verify="")
    assert plain.car is not None and not plain.car.apart
    assert b"Verified-Tree" not in store.git("log", "-1", "--format=%B", plain.car.commit, lent=True).stdout
    assert building.bench.has(one.commit, "one.txt") and not building.bench.has(one.commit, "two.txt")
    assert building.bench.branch.contains(building.base) and not building.bench.branch.contains(one.commit)


def test_what_conflicts_with_the_branch_is_refused_and_what_only_with_the_row_waits(building: Building) -> None:
    one, two = building.change("one", {"a.txt": "1"}), building.change("two", {"a.txt": "2"})
    built = building.build(one, two)
    assert built.car is not None and built.car.orders == ("one",) and built.blocked == ("two",) and built.refused == {}
    building.repository.git("merge", "-q", one.commit)
    built = building.build(two)
    assert built.refused == {"two": ("conflict", "it conflicts with the branch in a.txt (content)")}
    assert built.conflicts == {"two": ("a.txt",)} and built.car is None
    three = building.change("three", {"c.txt": "3"})
    built = building.build(two, three)
    assert built.car is not None and built.car.orders == ("three",) and set(built.refused) == {"two"}
    many = tuple(f"f{number}" for number in range(7))
    words = bench_module._conflict(TreeMerge(tree="t", conflicts=many))
    assert words == "it conflicts with the branch in f0, f1, f2, f3, f4 and 2 more"
    assert bench_module._conflict(TreeMerge(tree="t", conflicts=many[:5])).endswith("f3, f4")


def test_what_other_programs_or_the_check_obey_needs_a_person(building: Building) -> None:
    markers = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"
    assert building.refused(building.change("marked", {"c.txt": markers})) == ("refused", "it adds conflict markers")
    half = building.change("half", {"c.txt": "<<<<<<< a\n"})
    assert building.build(half).car is not None
    judge = building.change("judge", {"check.sh": "true"})
    why = "it changes check.sh, which the check names"
    assert building.refused(judge, verify="sh ./check.sh") == ("judge", why)
    assert building.build(replace(judge, verify="sh ./check.sh")).car is not None, "its own check names its own work"
    assert building.build(judge, verify="true").car is not None
    for agreed in ({"anyway": True}, {"may_change": ("check.sh",)}):
        assert building.build(replace(judge, **agreed), verify="sh ./check.sh").car is not None
    ruled = building.change("ruled", {".github/workflows/ci.yml": "x", "AGENTS.md": "x"})
    kind, why = building.refused(ruled)
    assert kind == "refused" and "which other programs obey; a person can agree with `treadle land " in why
    assert building.build(replace(ruled, anyway=True)).car is not None
    building.repository.git("config", "core.hooksPath", "hooks")
    hook = building.change("hook", {"hooks/pre-commit": "x"}, anyway=True)
    assert building.refused(hook)[1].endswith(": merge it by hand")


@pytest.mark.parametrize(("name", "text"), [("go.mod", "module m\n"), ("Cargo.toml", "[package]\nname = 'm'\n")])
def test_a_file_by_which_the_project_would_be_checked_in_another_way_needs_a_person(
    building: Building, name: str, text: str
) -> None:
    (building.top / "test_it.py").write_text("import unittest\n")
    building.repository.git("add", "-A")
    building.repository.git("commit", "-qm", "a test")
    building.base = building.repository.commit()
    made = building.change("made", {name: text})
    why = f"it changes {name}, which decides what checks the project"
    assert building.refused(made, verify="python3 -m unittest") == ("judge", why)
    assert building.build(replace(made, may_change=(name,)), verify="python3 -m unittest").car is not None
    assert building.build(made, verify="make").car is not None, "a person gave the branch its check"


@pytest.mark.parametrize(
    ("verify", "files"),
    [
        ("make test", {"make", "test", "GNUmakefile", "makefile", "Makefile"}),
        ("sh -e ./ci/check.sh", {"sh", "ci/check.sh"}),
        ("python 'a b.py'", {"python", "a b.py"}),
        ("sh 'unclosed", {"sh", "'unclosed"}),
        ("", set()),
    ],
)
def test_a_check_is_made_of_the_files_that_its_command_names(verify: str, files: set[str]) -> None:
    assert bench_module.judges(verify) == files


def test_a_change_is_brought_into_the_store_whole_or_not_at_all(building: Building, tmp_path: Path) -> None:
    one, two = building.change("one", {"one.txt": "1"}), building.change("two", {"two.txt": "2"})
    clone = tmp_path / "clone"
    building.repository.git("update-ref", "refs/made/one", one.commit)
    building.repository.git("bundle", "create", "-q", str(clone), "refs/made/one", f"^{building.base}")
    bundle = clone.read_bytes(), "refs/made/one"
    with pytest.raises(WorkspaceError, match=f"has no commit {'1' * 12}, the base of one") as error:
        building.bench.keep("one", one.commit, bundle, "1" * 40)
    assert error.value.hint == "git fetch"
    with pytest.raises(WorkspaceError, match=f"the bundle of two contains {one.commit[:12]}, not {two.commit[:12]}"):
        building.bench.keep("two", two.commit, bundle, building.base)
    building.bench.keep("one", one.commit, bundle, building.base)
    assert building.bench.store.ref("refs/train/one") == one.commit
    building.bench.keep("one", one.commit, (b"not looked at again", ""), "")
    built = building.build(one)
    assert built.car is not None
    for tip in (building.base, "1" * 40):
        building.bench.lend(built.car.commit, tip)
        assert building.repository.commit(bench_module.lent_ref(built.car.commit)) == built.car.commit
        building.bench.take_back(built.car.commit)
        assert building.repository.git("for-each-ref", "refs/treadle") == ""
        assert building.bench.store.ref(bench_module.lent_ref(built.car.commit)) is None
    building.bench.take_back("1" * 40)


async def test_a_check_has_its_setup_and_what_is_brought_and_a_red_setup_is_the_verdict(
    building: Building, tmp_path: Path
) -> None:
    (building.top / ".git" / "info" / "exclude").write_text("brought\n")
    (building.top / "brought").write_text("x")
    built = building.build(building.change("one", {"one.txt": "1"}))
    assert built.car is not None
    commit = built.car.commit
    green = await building.bench.check(
        commit, "test -e one.txt && test -e made && test -e brought", "touch made", ["brought"]
    )
    assert green.ok, green
    red = await building.bench.check(commit, "true", "echo no >&2; exit 3", [])
    assert not red.ok and "no" in red.output_tail and red.command == "echo no >&2; exit 3"
    alone = await building.bench.check(commit, "test -e brought || { echo missing; false; }", "", [])
    assert not alone.ok and alone.output_tail.strip() == "missing"
    assert bench_module._empty({}) == ""
    words = bench_module._empty({"lib": "1" * 40, "deep/er": "2" * 40})
    assert words == f"treadle: your checkout has no files for the submodule lib at {'1' * 12}, deep/er at {'2' * 12}\n"

"""Where cars are built: what is taken of an order, and what is refused."""

from pathlib import Path

from tests.fleet.repositories import git
from tests.landing.test_merging import Finished, clean
from tests.landing.trains import empty, run
from treadle.fleet.engine.bus import Bus
from treadle.landing import merging, train
from treadle.landing.train import Train


async def test_a_change_with_conflict_markers_or_to_its_own_check_is_refused(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    marked = await finished.order("marked", {"c.txt": "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"})
    judge = await finished.order("judge", {"check.sh": "true\n"})
    record = await run(bus, repository, marked, judge, verify="sh ./check.sh || test ! -e check.sh")
    reasons = {each.order: each.why for each in record.left_out}
    assert record.landed == 0 and reasons[marked] == "it adds conflict markers"
    assert "it changes check.sh, by which it is checked" in reasons[judge] and "--anyway" in reasons[judge]
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
    (step,) = await merging.merge(bus, [one], str(repository))
    assert not step.merged and "b.txt, which its order does not state" in step.why


async def test_work_on_a_file_that_the_branch_has_renamed_lands_under_its_new_name(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "".join(f"{n}\n" for n in range(20)), "more.txt": "x\n"})
    assert (await run(bus, repository, one)).landed == 1
    finished.base = git(repository, "rev-parse", "main")
    git(finished.clone, "fetch", "-q", "origin", "main")
    two = await finished.order("two", {"a.txt": "".join(f"{n}\n" for n in range(21))})
    git(repository, "mv", "a.txt", "renamed.txt")
    git(repository, "commit", "-qm", "renamed")
    assert (await run(bus, repository, two)).landed == 2
    assert (repository / "renamed.txt").read_text().endswith("20\n") and not (repository / "a.txt").exists()


async def test_what_the_persons_own_git_obeys_is_left_out_and_stops_no_other(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    git(repository, "config", "core.hooksPath", "hooks")
    hook = await finished.order("hook", {"hooks/post-checkout": "x\n"})
    one = await finished.order("one", {"one.txt": "x\n"})
    record = await run(bus, repository, hook, one)
    (out,) = record.left_out
    assert record.landed == 1 and out.order == hook and "hooks/post-checkout, which is in the directory of" in out.why


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

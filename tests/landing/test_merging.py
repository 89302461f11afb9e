"""Work that is landed by hand, without help: `land --no-help`."""

from pathlib import Path

import pytest

from tests.cli.test_land import land
from tests.fleet.repositories import git
from tests.landing.finished import Finished, clean
from treadle.errors import ConfigError
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet import keys


async def test_the_branchs_own_attributes_say_how_a_list_is_merged(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    (repository / ".gitattributes").write_text("a.txt merge=union\n* filter=evil\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "attributes")
    finished.base = git(repository, "rev-parse", "HEAD")
    git(finished.clone, "fetch", "-q")
    names = [await finished.order(name, {"a.txt": f"one\n{name}\n"}) for name in ("mine", "yours")]
    await land(*names, "--no-help", "--root", str(repository), "--verify", "true")
    assert (repository / "a.txt").read_text() == "one\nmine\nyours\n"


async def test_where_a_branch_has_no_check_that_of_the_order_counts_and_none_lands_without_one(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    checked = await finished.order("checked", {"b.txt": "two\n"}, verify="test -e a.txt")
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", "-b", "other", str(linked))
    assert "checked  landed as " in (await land(checked, "--no-help", "--root", str(linked)))[1]
    assert (linked / "b.txt").read_text() == "two\n" and git(linked, "status", "--porcelain") == ""
    assert git(repository, "rev-parse", "main") == finished.base and clean(repository)
    assert "checked  there: the branch has it already" in (await land(checked, "--no-help", "--root", str(linked)))[1]
    with pytest.raises(ConfigError, match="no check is set for other"):
        await land(one, "--no-help", "--root", str(linked))


async def test_what_is_left_out_is_told_with_its_order_and_lands_when_a_person_agrees(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {".github/workflows/ci.yml": "x\n"})
    code, said = await land(one, "--no-help", "--root", str(repository), "--verify", "true")
    assert code == 3 and "a person can agree with `treadle land one --anyway`" in said
    await land(one, "--no-help", "--root", str(repository), "--anyway")
    assert (repository / ".github").is_dir() and len(await bus.named([keys.LANDED(one)])) == 1

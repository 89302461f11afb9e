"""A hundred ways to change what another holds: refused before, and if not, by the kernel."""

from pathlib import Path

import pytest

from tests.agent.checkouts import git
from tests.io.sandbox.rooms import sh
from tests.safety.corpora import ALIAS, CLAIM_WAYS, claim_way, everyday
from treadle.coordination.changes import CommandJudge
from treadle.coordination.claims import Claims
from treadle.coordination.guard import Guarded
from treadle.coordination.planning import Planning
from treadle.io.sandbox import methods
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement

ANN, BOB = "haid:ann.box-0001/native", "haid:bob.box-0002"
NUMBERS = range(len(CLAIM_WAYS))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A checkout in which Bob holds one file for each of the ways."""
    top = tmp_path / "w"
    (top / "held").mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "alias.put", ALIAS)
    (top / "spare").write_text("spare\n")
    (top / "linked").symlink_to("held")
    for text, branch in (("mine\n", "other"), ("theirs\n", "main")):
        git(top, "checkout", "-q", "-B", branch)
        for number in NUMBERS:
            (top / f"held/h{number}").write_text(text)
        git(top, "add", ".")
        git(top, "commit", "-qm", branch)
    Claims(Planning(project=str(top)), str(top)).claim(BOB, ["held/**"], "T-1")
    return top


def changed(top: Path) -> list[str]:
    files = {number: top / f"held/h{number}" for number in NUMBERS}
    return [
        claim_way(n)
        for n, file in files.items()
        if not file.is_file() or file.is_symlink() or file.read_bytes() != b"theirs\n"
    ]


def test_each_way_is_refused_or_in_doubt_before_it_runs(top: Path) -> None:
    claims = Claims(Planning(project=str(top)), str(top))
    refused, unseen, through = 0, 0, []
    for number in NUMBERS:
        judge = CommandJudge(claims, ANN, str(top))
        judge.judge(claim_way(number))
        refused += bool(judge.overlaps)
        unseen += bool(judge.unseen and not judge.overlaps)
        through += [] if judge.overlaps or judge.unseen else [claim_way(number)]
    assert through == []
    assert (len(CLAIM_WAYS), refused, unseen) == (121, 75, 46), "then docs/how-to/claims.md says something else too"


def test_a_day_s_work_is_not_disturbed(top: Path) -> None:
    claims = Claims(Planning(project=str(top)), str(top))

    def asked() -> list[str]:
        judges = [(command, CommandJudge(claims, ANN, str(top))) for command in everyday()[:150]]
        for command, judge in judges:
            judge.judge(command)
        return [command for command, judge in judges if judge.overlaps or judge.lasting]

    claims.release(BOB)
    assert asked() == []
    claims.claim(BOB, ["held/h7"], "T-1")
    assert len(asked()) <= 2, asked()


@pytest.mark.slow
@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
async def test_none_takes_effect_in_the_sandbox(top: Path) -> None:
    held = Guarded(Planning(project=str(top)), ANN).holding
    made = Confining(str(top), (), Confinement(use="on"), session="s", holding=held)
    ways = "\n".join(f"( {claim_way(number)}\n) </dev/null >/dev/null 2>&1" for number in NUMBERS)
    await sh(made.now(), f"{ways}\nwait; echo still-mine > spare", top)
    assert changed(top) == [] and (top / "spare").read_text() == "still-mine\n"
    made.close()


@pytest.mark.slow
async def test_without_it_nearly_all_take_effect(top: Path) -> None:
    """Otherwise the two tests above would show nothing. Some need programs that not every machine has."""
    ways = "\n".join(f"( {claim_way(number)}\n) </dev/null >/dev/null 2>&1" for number in NUMBERS)
    await sh(None, f"{ways}\nwait", top)
    assert len(changed(top)) > 0.9 * len(CLAIM_WAYS)

"""All that landing asks of a forge, asked once."""

from pathlib import Path
from typing import Any

import pytest

from tests.fleet.repositories import git
from tests.landing.forge.server import ForgeServer
from treadle.errors import LocalError
from treadle.landing.forge.interface import Forge, ForgeComment

BESIDE = "treadle/land-main"


def repositories(place: Path) -> tuple[Path, str]:
    """A bare repository with a commit beside its branch, and that commit."""
    bare, work = place / "bare.git", place / "work"
    git(place, "init", "-q", "-b", "main", str(work))
    git(work, "commit", "-q", "--allow-empty", "-m", "first")
    git(place, "clone", "-q", "--bare", str(work), str(bare))
    git(work, "commit", "-q", "--allow-empty", "-m", "second")
    git(work, "push", "-q", str(bare), f"HEAD:refs/heads/{BESIDE}")
    return bare, git(work, "rev-parse", "HEAD")


class WrittenAnswers(ForgeServer):
    """Answers every request as the test has written down, by its method and path; `exchanges` has what was asked."""

    def __init__(self, place: Path, answers: dict[str, Any]) -> None:
        (place / "hooks").mkdir()
        super().__init__(place)
        self.answers = answers

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        return 200, self.answers[f"{method} {path}"]


async def ask_everything(forge: Forge, hub: ForgeServer, head: str) -> None:
    assert await forge.find(BESIDE, "main") is None
    made = await forge.open(BESIDE, "main", "Land one", "what it is")
    assert (made.head, made.state, made.body) == (head, "open", "what it is")
    found = await forge.find(BESIDE, "main")
    assert found is not None and found.number == made.number
    assert (await forge.update(made.number, "Land one", "more")).body == "more"
    (pull,) = hub.pulls
    assert await forge.checks(head) == []
    hub.ends(pull, "failure")
    assert [(each.name, each.state) for each in await forge.checks(head)] == [("ci", "red")]
    assert (await forge.reviews(made.number, head)).refused_by == ()
    hub.refuses(pull, "ann", "no", "round", "a.txt", 3)
    said = await forge.reviews(made.number, head)
    remark = ForgeComment(by="ann", text="round", path="a.txt", line=3)
    assert said.refused_by == ("ann",) and said.comments == (ForgeComment(by="ann", text="no"), remark)
    hub.needs_review = True
    with pytest.raises(LocalError, match="answers 405"):
        await forge.merge(made.number, head, "Land one\n\nOrder: one")
    hub.needs_review = False
    with pytest.raises(LocalError, match="answers 409"):
        await forge.merge(made.number, "0" * 40, "Land one")
    merged = await forge.merge(made.number, head, "Land one\n\nOrder: one")
    assert merged == git(hub.bare, "rev-parse", "main")
    assert (await forge.look(made.number)).merged_as == merged
    assert (await forge.close(made.number)).state == "merged", "it is too late"
    again = await forge.open(BESIDE, "main", "Land two", "")
    assert (await forge.close(again.number)).state == "closed" and await forge.find(BESIDE, "main") is None
    hub.issues[7] = {"title": "Cents", "body": "are lost"}
    issue = await forge.issue(7)
    assert (issue.title, issue.body) == ("Cents", "are lost")

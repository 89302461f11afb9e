"""Notes of git-ai and Agent Trace: read as claims where they fit, written for what landed, right after any rewrite."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.finished import Finished
from tests.landing.trains import empty
from treadle.fleet.engine.bus import Bus
from treadle.landing import authorship, train
from treadle.landing.authorship import AuthorClaim
from treadle.workspace import checkouts

AI, TRACE = "refs/notes/ai", "refs/notes/agent-trace"


def block(author: str, count: int, about: str) -> str:
    """Lines that say who wrote them, except for each fifth, which others have too."""
    return "".join("end\n" if n % 5 == 4 else f"{author} wrote {about} {n}\n" for n in range(count))


def save(place: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        (place / f"{name}.txt").write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-qm", message)
    return git(place, "rev-parse", "HEAD")


PERSON = block("person", 60, "shared")
ONE, TWO = block("one", 100, "shared"), block("two", 100, "shared")


@pytest.fixture
def landed(repository: Path) -> Path:
    """A thousand lines: two orders have landed, each with a file of its own and a part of one that a person began."""
    base = save(repository, "base", shared=PERSON, person=block("person", 60, "own"))
    works = {
        "one": {"a": block("one", 340, "a"), "shared": ONE + PERSON},
        "two": {"b": block("two", 340, "b"), "shared": PERSON + TWO},
    }
    for order, files in works.items():
        before = git(repository, "rev-parse", "main")
        git(repository, "checkout", "-q", "--detach", base)
        work = save(repository, order, **files)
        git(repository, "checkout", "-q", "main")
        git(repository, "merge", "-q", "--no-ff", "--no-commit", work)
        git(repository, "commit", "-qm", f"Land {order}\n\nOrder: {order}\nAgent: codex (acme/m-1)\nTrain: t")
        git(repository, "tag", f"work-{order}", work)
        authorship.write(checkouts.around(str(repository)), before, git(repository, "rev-parse", "main"))
    git(repository, "tag", "base", base)
    return repository


def upstream(place: Path) -> None:
    """A person's commit beside what landed, in a file that both orders changed."""
    git(place, "checkout", "-q", "-B", "other", "base")
    save(place, "upstream", shared=PERSON.replace("shared 30\n", "shared 30\nperson wrote more\nend\n"))


def rebase(place: Path) -> None:
    upstream(place)
    git(place, "checkout", "-q", "main")
    git(place, "rebase", "-q", "other")


def squash(place: Path) -> None:
    git(place, "reset", "-q", "--soft", "base")
    save(place, "all of it in one")


def cherry_pick(place: Path) -> None:
    upstream(place)
    git(place, "cherry-pick", "work-two", "work-one")


def amend(place: Path) -> None:
    git(place, "checkout", "-q", "work-one")
    text = (place / "a.txt").read_text()
    (place / "a.txt").write_text("person wrote first\nend\n" + text.replace("one wrote a 100\n", "person wrote 100\n"))
    git(place, "commit", "-qa", "--amend", "-m", "amended")


def copied_note(place: Path) -> None:
    git(place, "config", "notes.rewriteRef", "refs/notes/*")
    amend(place)
    assert git(place, "notes", "--ref", TRACE, "list", "HEAD") and git(place, "notes", "--ref", AI, "list", "HEAD")


def merge(place: Path) -> None:
    upstream(place)
    git(place, "merge", "-q", "-m", "merged", "main")


def revert(place: Path) -> None:
    git(place, "revert", "-m", "1", "--no-edit", "HEAD")
    git(place, "revert", "--no-edit", "HEAD")


def rename(place: Path) -> None:
    git(place, "mv", "a.txt", "moved.txt")
    save(place, "renamed", moved=(place / "moved.txt").read_text() + "person wrote after\n")


def reformat(place: Path) -> None:
    lines = (place / "a.txt").read_text().splitlines(keepends=True)
    save(place, "formatted", a="".join(lines[:200]) + "".join(f"  {line}" for line in lines[200:]))


def reset(place: Path) -> None:
    git(place, "reset", "-q", "--hard", "HEAD~1")
    save(place, "anew", shared=(place / "shared.txt").read_text() + "person wrote instead\nend\n")


def filtered(place: Path) -> None:
    script = "mkdir -p deep && mv *.txt deep/"
    git(place, "-c", "advice.x=0", "filter-branch", "-f", "--tree-filter", script, "--", "main")


def force_push(place: Path) -> None:
    """Seen from a clone that never had the commits that the notes were written for."""
    rebase(place)
    git(place, "tag", "-d", "work-one", "work-two", "base")
    git(place.parent, "clone", "-q", "--single-branch", "-b", "main", f"file://{place}", "seen")
    git(place.parent / "seen", "fetch", "-q", "origin", "refs/notes/*:refs/notes/*")


REWRITES = (
    *(rebase, squash, cherry_pick, amend, copied_note, merge),
    *(revert, rename, reformat, reset, filtered, force_push),
)


def judged(place: Path) -> tuple[int, int, int]:
    """Lines attributed right, wrong, and all. A line's author is who the last line that says so names."""
    user, right, wrong, lines = checkouts.around(str(place)), 0, 0, 0
    for name in git(place, "ls-files", "*.txt").split("\n"):
        author, known = "person", dict[tuple[str, str], dict[int, tuple[AuthorClaim, ...]]]()
        for part in re.split(r"\n(?=[0-9a-f]{40} )", git(place, "blame", "--line-porcelain", "HEAD", "--", name)):
            commit, number = part.split(" ")[:2]
            file, text = re.search(r"^filename (.+)\n\t(.*)$", part, re.M).groups()  # type: ignore[union-attr]
            author = text.split(" ")[0] if " wrote " in text.lstrip() and text[0] != " " else author
            truth = "person" if text.startswith("  ") else author
            if (commit, file) not in known:
                known[commit, file] = authorship.claimed(user, commit, file)
            said = {each.session.removeprefix("treadle:order/") for each in known[commit, file].get(int(number), ())}
            right += said == ({truth} - {"person"})
            wrong += bool(said - ({truth} - {"person"}))
            lines += 1
    return right, wrong, lines


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda each: each.__name__)
@pytest.mark.slow
def test_lines_keep_their_authors_when_history_is_rewritten(
    landed: Path, rewrite: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
    right, wrong, lines = judged(landed)
    assert (right, wrong) == (lines, 0) and lines >= 1000
    rewrite(landed)
    right, wrong, lines = judged(landed.parent / "seen" if rewrite is force_push else landed)
    print(f"{rewrite.__name__}: {right} of {lines} right, {wrong} wrong")
    assert wrong == 0 and right >= 0.98 * lines


def test_text_that_was_there_before_or_is_copied_to_another_file_is_not_the_orders(landed: Path) -> None:
    git(landed, "checkout", "-q", "main")
    save(landed, "a copy", copy=(landed / "a.txt").read_text())
    assert authorship.origin(str(landed / "copy.txt"), 1).claims == ()
    before = git(landed, "rev-parse", "main")
    git(landed, "checkout", "-q", "-b", "moving")
    own = (landed / "person.txt").read_text()
    work = save(landed, "moves", person=own[len(own) // 2 :] + own[: len(own) // 2])
    git(landed, "checkout", "-q", "main")
    git(landed, "merge", "-q", "--no-ff", "-m", "Land x\n\nOrder: x\nTrain: t", work)
    authorship.write(checkouts.around(str(landed)), before, git(landed, "rev-parse", "main"))
    assert not any(authorship.origin(str(landed / "person.txt"), n, "base").claims for n in (1, 20, 40, 60))


@pytest.mark.slow
async def test_the_train_writes_both_only_when_it_is_told_to(bus: Bus, finished: Finished, repository: Path) -> None:
    for name, notes in (("off", False), ("on", True)):
        order = await finished.order(name, {f"{name}.txt": "x\ny\n"}, agent="codex", model="acme/m-1")
        made = await train.ensure(bus, str(repository), "", verify="true")
        record = await train.change(bus, made, partial(replace, notes=notes))
        await train.board(bus, made, [order])
        await train.Train(bus, made, record).run(empty)
        found = authorship.origin(str(repository / f"{name}.txt"), 2)
        kinds = [(each.source, each.kind, each.author, each.model) for each in found.claims]
        assert kinds == ([(each, "ai", "codex", "acme/m-1") for each in ("git-ai", "agent-trace")] if notes else [])


SESSION, TRACED = "s_c9883b05a2487d", "s_c9883b05a2487d::t_9f8e7d6c5b4a32"
AGENT = {"agent_id": {"tool": "cursor", "id": "c-1", "model": "m-2"}, "human_author": "a@b"}
HUMAN = {"h_31dce776f88375": {"author": "Ann <a@b>"}}
LOG = {"schema_version": "authorship/3.0.0", "prompts": {"abcd1234abcd1234": AGENT}, "sessions": {SESSION: AGENT}}
ROW = f"made.txt\n  {TRACED} 2-3"
BY_AI = AuthorClaim(source="git-ai", kind="ai", author="cursor", model="m-2", session="c-1")
TALK = {"url": "https://x/1", "contributor": {"type": "ai", "model_id": "acme/m"}}
RANGE = {"start_line": 2, "end_line": 3}
BY_TRACE = AuthorClaim(source="agent-trace", kind="ai", author="tab", model="acme/m", session="https://x/1")
DEEP = "[" * 100_000


def log(rows: str, **more: object) -> str:
    return f"{rows}\n---\n{json.dumps({**LOG, 'base_commit_sha': 'HERE', **more}, indent=1)}"


def trace(*ranges: dict[str, object], **more: object) -> str:
    vcs = {"type": "git", "revision": "HERE"}
    files = [{"path": "made.txt", "conversations": [{**TALK, "ranges": list(ranges)}]}]
    head = {"version": "0.1.0", "id": "550e8400-e29b-41d4-a716-446655440000", "timestamp": "2026-01-25T10:00:00Z"}
    return json.dumps({**head, "vcs": vcs, "tool": {"name": "tab"}, "files": files, **more})


@pytest.mark.parametrize(
    ("ref", "note", "claim"),
    [
        (AI, log(ROW), BY_AI),
        (AI, log('"made.txt"\n  abcd1234abcd1234 1,2'), BY_AI),
        (AI, log("other.txt\n  x 90\nmade.txt\n  h_31dce776f88375 1-3", humans=HUMAN), "Ann <a@b>"),
        (AI, log(f"made.txt\n  {TRACED} 1,3"), None),
        (AI, log(ROW, base_commit_sha="PARENT"), None),
        (AI, log(ROW, base_commit_sha=""), None),
        (AI, log(ROW, schema_version="authorship/4.0.0"), None),
        (AI, log(ROW, sessions={}), None),
        (AI, log(f"{ROW},4"), None),
        (AI, log(f"{ROW}\n  {TRACED} 0"), None),
        (AI, log(f"{ROW}\n  {TRACED} 3-2"), None),
        (AI, log(f"{ROW}\n  h_31dce776f88375 2", humans=HUMAN), None),
        (AI, log(f"{ROW}\n   {TRACED} 2"), None),
        (AI, log(f"  {TRACED} 2"), None),
        (AI, log(ROW).replace("---", "--"), None),
        (AI, f"{ROW}\n---\n{DEEP}", None),
        (TRACE, trace(RANGE), BY_TRACE),
        (TRACE, trace(RANGE) + "\n\n" + trace({"start_line": 1, "end_line": 1}), BY_TRACE),
        (TRACE, json.dumps(json.loads(trace(RANGE)), indent=1), BY_TRACE),
        (TRACE, trace({**RANGE, "contributor": {"type": "human"}}), "https://x/1"),
        (TRACE, trace({"start_line": 1, "end_line": 1}), None),
        (TRACE, trace(RANGE, vcs={"type": "git", "revision": "PARENT"}), None),
        (TRACE, trace(RANGE, vcs={"type": "jj", "revision": "HERE"}), None),
        (TRACE, trace(RANGE, vcs=None), None),
        (TRACE, trace(RANGE, {"start_line": 3, "end_line": 4}), None),
        (TRACE, trace(RANGE, {"start_line": 0, "end_line": 1}), None),
        (TRACE, trace(RANGE, {**RANGE, "contributor": {"type": "human"}}), None),
        (TRACE, trace(RANGE) + "\nand more", None),
        (TRACE, trace(RANGE, metadata={"dev.treadle": {"blobs": {"made.txt": "f" * 40}, "agents": {}, "at": 1}}), None),
        (TRACE, trace(RANGE, metadata={"dev.treadle": DEEP}), None),
        (TRACE, DEEP, None),
    ],
)
def test_a_note_claims_a_line_only_where_it_fits(
    repository: Path, ref: str, note: str, claim: AuthorClaim | str | None
) -> None:
    parent = git(repository, "rev-parse", "HEAD")
    here = save(repository, "made", made="x\rx\ny\nz\n")
    note = note.replace("HERE", here).replace("PARENT", parent)
    (repository.parent / "note").write_text(note)
    git(repository, "notes", "--ref", ref, "add", "-F", str(repository.parent / "note"), here)
    found = authorship.origin(str(repository / "made.txt"), 2)
    if isinstance(claim, str):
        assert [(each.kind, each.author or each.session) for each in found.claims] == [("human", claim)]
    else:
        assert found.claims == ((claim,) if claim is not None else ()) and (found.order, found.proved) == ("", None)

"""Claims: what they cover, how long they last, who may end them, and that a race has exactly one winner."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coordination.conftest import Clock, at_once
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.planning import Planning
from treadle.errors import Busy, ConfigError, Denied, NotFound
from treadle.io.files import locked

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


@pytest.fixture
def claims(tmp_path: Path, planning: Planning) -> Claims:
    return Claims(planning, str(tmp_path))


def decisions(claims: Claims) -> str:
    return Path(claims.planning.path("ledger", "decisions.md")).read_text()


def test_a_claim_is_a_file_that_the_original_tools_read(claims: Claims) -> None:
    claims.claim(f"{ANN}/coder", ["src/a/**", "lib/x.ts#foo"], "T-1")
    text = (Path(claims.directory) / "haid_ann.box-0001_coder.json").read_text()
    assert json.loads(text) == {
        "haid": f"{ANN}/coder",
        "human": "ann",
        "claimed_surfaces": ["src/a/**", "lib/x.ts#foo"],
        "task_ref": "T-1",
        "claimed_at": "2026-06-11T12:07:27Z",
        "ttl_minutes": 90,
        "heartbeat": "2026-06-11T12:07:27Z",
        "expires_at": "2026-06-11T13:37:27Z",
        "fence": 1,
        "mode": "exclusive",
        "held": {
            text: {"task": "T-1", "mode": "exclusive", "fence": 1, "since": "2026-06-11T12:07:27Z"}
            for text in ("src/a/**", "lib/x.ts#foo")
        },
    }
    assert list(json.loads(text))[:7] == [
        "haid", "human", "claimed_surfaces", "task_ref", "claimed_at", "ttl_minutes", "heartbeat"
    ]  # fmt: skip


def test_a_collision_names_the_holder_the_surfaces_the_task_and_when_it_ends(claims: Claims) -> None:
    claims.claim(ANN, ["src/a/**"], "T-1")
    with pytest.raises(Collision) as caught:
        claims.claim(BOB, ["docs", "src/*/b.ts"], "T-2")
    assert caught.value.message == (
        f"COLLISION: cannot claim what {ANN} holds\n  src/*/b.ts overlaps src/a/** held by {ANN}"
        " (human ann, task T-1, exclusive until 2026-06-11T13:37:27Z)"
    )
    assert claims.of(BOB) is None
    claims.claim(BOB, ["docs"], "T-2")


def test_claims_add_up_and_each_surface_keeps_its_task_its_mode_and_its_fence(claims: Claims) -> None:
    claims.claim(ANN, ["src"], "T-1", 30)
    held = claims.claim(ANN, ["docs", "src"], "T-2", 10, shared=True)
    assert held.texts == ["src", "docs"] and held.task == "T-2" and held.fields["ttl_minutes"] == 30
    held = claims.claim(ANN, ["lib"], "T-3")
    assert held.task == "T-2; T-3" and held.mode == "exclusive" and held.fence == 3
    assert [held.part(text)["fence"] for text in held.texts] == [2, 2, 3]
    claims.claim(BOB, ["docs"], "read", shared=True)
    for text in ("docs", "lib"):
        with pytest.raises(Collision, match="T-2" if text == "docs" else "T-3"):
            claims.claim(BOB, [text], "T-4")


def test_a_release_gives_up_what_it_names_or_all(claims: Claims) -> None:
    claims.claim(ANN, ["src/a", "docs/**", "x.ts#f"], "T-1")
    released = claims.release(ANN, surfaces=["./src/a/"])
    assert released is not None and (released.given, released.left) == (["src/a"], ["docs/**", "x.ts#f"])
    claims.claim(BOB, ["src"], "T-2")
    with pytest.raises(NotFound, match="has not claimed x.ts#g"):
        claims.release(ANN, surfaces=["docs/**", "x.ts#g"])
    assert claims.release(ANN, surfaces=["docs/**", "x.ts#f"]).left == []  # type: ignore[union-attr]
    assert claims.of(ANN) is None and claims.release(ANN) is None


@pytest.mark.parametrize("text", ["../other", "/etc/passwd", "src/../../x", "../**"])
def test_a_surface_outside_of_the_repository_is_refused(claims: Claims, text: str) -> None:
    with pytest.raises(ConfigError, match="outside"):
        claims.claim(ANN, [text], "T")


def test_a_claim_from_a_clock_ahead_holds_no_longer_than_its_ttl(claims: Claims, tmp_path: Path) -> None:
    ahead = Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=lambda: time.time() + 36_000)
    path = Claims(ahead, str(tmp_path)).claim(BOB, ["src"], "T-1", 90).path
    os.utime(path, (1, 1))  # a file's own time ends nothing
    here = Claims(Planning(str(tmp_path / ".planning"), project=str(tmp_path)), str(tmp_path))
    (claim,) = here.active()
    assert claim.ends - time.time() <= 90 * 60 + 1
    here.reap()
    assert here.active()[0].fields["heartbeat"] <= here.planning.now()


def test_a_heartbeat_from_a_clock_behind_ends_nothing(claims: Claims, tmp_path: Path) -> None:
    before = claims.claim(ANN, ["src"], "T-1").expires_at
    behind = Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=lambda: claims.planning.clock() - 7200)
    Claims(behind, str(tmp_path)).heartbeat(ANN)
    assert claims.of(ANN).expires_at == before  # type: ignore[union-attr]


def test_a_claim_ends_by_itself_and_a_heartbeat_renews_it(claims: Claims, clock: Clock) -> None:
    claims.claim(ANN, ["src"], "T-1", 10)
    clock.now += 599
    assert claims.of(ANN)
    assert claims.heartbeat(ANN).expires_at == "2026-06-11T12:27:26Z"
    clock.now += 600
    assert claims.of(ANN) is None and claims.active() == []
    claims.claim(BOB, ["src"], "T-2")
    assert f"auto-release (TTL/heartbeat expired)\n\nThe claim of `{ANN}` (task `T-1`)" in decisions(claims)
    with pytest.raises(NotFound):
        claims.heartbeat(ANN)


def test_a_claim_that_ran_out_is_not_renewed_over_one_that_came_meanwhile(claims: Claims, clock: Clock) -> None:
    claims.claim(ANN, ["src"], "T-1", 1)
    clock.now += 61
    theirs = {"haid": BOB, "claimed_surfaces": ["src/a.ts"], "task_ref": "T-2", "heartbeat": claims.planning.now()}
    (Path(claims.directory) / "haid_bob.box-0002.json").write_text(json.dumps(theirs))  # as if git had restored it
    with pytest.raises(Collision, match=BOB):
        claims.heartbeat(ANN)
    assert claims.of(ANN) is None


def test_the_fence_grows_for_ever_also_across_released_claims(claims: Claims) -> None:
    fences = []
    for _ in range(3):
        fences.append(claims.claim(ANN, ["src"], "T").fence)
        claims.release(ANN)
    os.unlink(claims.planning.path("ledger", "fence"))  # even then, the next one exceeds those that are held
    Path(claims.planning.path("ledger", "fence")).write_text("7\n")
    fences.append(claims.claim(ANN, ["src"], "T").fence)
    Path(claims.planning.path("ledger", "fence")).write_text("garbage")
    fences.append(claims.claim(BOB, ["docs"], "T").fence)
    Path(claims.planning.path("ledger", "fence")).write_text("2\n")
    fences.append(claims.claim(ANN, ["src"], "T").fence)
    assert fences == [1, 2, 3, 8, 9, 10]


def test_only_its_holder_or_its_checkout_may_release_a_claim(claims: Claims) -> None:
    claims.claim(f"{ANN}/coder", ["src"], "T-1")
    for caller in (BOB, f"{ANN}/tester", f"{BOB}/coder"):
        with pytest.raises(Denied, match="not .* to release"):
            claims.release(caller, f"{ANN}/coder")
        with pytest.raises(Denied):
            claims.release(caller, f"{ANN}/coder", force=True)
        with pytest.raises(Denied):
            claims.heartbeat(caller, f"{ANN}/coder")
    assert claims.release(ANN, f"{ANN}/coder")
    assert claims.release(ANN, f"{ANN}/coder") is None


def test_a_revoked_identity_can_neither_claim_nor_renew_nor_release(claims: Claims) -> None:
    claims.claim(ANN, ["src"], "T-1")
    claims.agents.register(ANN)
    claims.agents.revoke(ANN)
    for act in (
        lambda: claims.claim(ANN, ["docs"], "T-2"),
        lambda: claims.heartbeat(ANN),
        lambda: claims.release(ANN),
        lambda: claims.claim(f"{ANN}/coder", ["docs"], "T-2"),
    ):
        with pytest.raises(Denied, match="revoked"):
            act()


@pytest.mark.parametrize(
    ("surfaces", "task", "ttl"),
    [([], "T", None), (["a"], "", None), (["a"], "T", 0), (["a"], "T", 10**9), ([""], "T", 1)],
)
def test_a_claim_that_makes_no_sense_is_refused(
    claims: Claims, surfaces: list[str], task: str, ttl: int | None
) -> None:
    with pytest.raises(ConfigError):
        claims.claim(ANN, surfaces, task, ttl)


def test_files_that_are_no_claims_are_not_in_the_way(claims: Claims) -> None:
    claims.claim(ANN, ["src"], "T-1")
    texts = ["{", "[]", '{"haid":"x"}', "", '{"haid":1,"claimed_surfaces":[]}', '{"haid":"x","claimed_surfaces":"src"}']
    for number, text in enumerate(texts):
        (Path(claims.directory) / f"{number}.json").write_text(text)
    (Path(claims.directory) / "notes.txt").write_text("")
    assert [claim.haid for claim in claims.active()] == [ANN]


def test_odd_fields_of_another_tools_claim_do_no_harm(claims: Claims, clock: Clock) -> None:
    odd = {
        "haid": BOB,
        "claimed_surfaces": ["", "x" * 5000, "docs"],
        "task_ref": "two\nlines",
        "claimed_at": "2026-06-11T12:07:27Z",
        "heartbeat": None,
        "ttl_minutes": 1e300,
        "fence": "many",
    }
    path = Path(claims.directory) / "odd.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(odd))
    with pytest.raises(Collision, match=r"task two\\nlines, exclusive until 2027-06-11") as caught:
        claims.claim(ANN, ["docs/x"], "T")
    assert len(caught.value.overlaps) == 1
    clock.now += 400 * 24 * 3600
    claims.claim(ANN, ["docs/x"], "T")
    assert not path.exists()  # reaped where it was found, whatever its name


def test_reap_says_what_it_removed(claims: Claims, clock: Clock) -> None:
    claims.claim(ANN, ["src"], "T-1", 1)
    claims.claim(BOB, ["docs"], "T-2", 60)
    clock.now += 120
    reaped, active = claims.reap()
    assert ([claim.haid for claim in reaped], [claim.haid for claim in active]) == ([ANN], [BOB])
    assert not (Path(claims.directory) / "haid_ann.box-0001.json").exists()


# Races, with real processes...


def test_of_racing_claimants_exactly_one_wins(project: Path) -> None:
    for race in range(4):
        racers = (
            (
                ["claim", "claim", f"src/{race}/**", f"lib/{number}-{race}", "--task", "race"],
                {"HEIMDALL_HAID": f"haid:racer.box-{race:02x}{number:02x}"},
            )
            for number in range(10)
        )
        assert sorted(at_once(racers)) == [0] + [3] * 9
    held = [json.loads(path.read_text()) for path in (project / ".planning" / "ledger" / "claims").glob("*.json")]
    assert len(held) == 4
    assert len({claim["fence"] for claim in held}) == 4


class Impatient(Claims):
    """Of one who does not wait for the lock."""

    def lock(self) -> locked:
        lock = super().lock()
        lock.timeout = 0.0
        return lock


@pytest.mark.parametrize(
    "change",
    [
        lambda claims: claims.claim(ANN, ["lib"], "T-1"),
        lambda claims: claims.release(ANN),
        lambda claims: claims.heartbeat(ANN),
        lambda claims: claims.reap(),
    ],
    ids=["claim", "release", "heartbeat", "reap"],
)
def test_while_another_holds_the_lock_nothing_changes(
    claims: Claims, tmp_path: Path, change: Callable[[Claims], object]
) -> None:
    before = claims.claim(ANN, ["src"], "T-1").fields
    impatient = Impatient(claims.planning, str(tmp_path))
    with claims.lock(), pytest.raises(Busy):
        change(impatient)
    (after,) = claims.active()
    assert after.fields == before
    change(impatient)


LOOP = """
import sys
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.planning import Planning
claims = Claims(Planning(sys.argv[1]))
while True:
    try:
        fence = claims.claim(sys.argv[2], ["src/**"], "loop").fence
        print(fence, flush=True)
        claims.release(sys.argv[2])
    except Collision:
        pass
"""


@pytest.mark.slow
def test_claimants_killed_at_random_moments_leave_claims_that_work(tmp_path: Path) -> None:
    root = str(tmp_path / ".planning")
    chance = random.Random(7)
    fences: list[int] = []
    for attempt in range(12):
        haid = f"haid:loop.box-{attempt:04x}"
        child = subprocess.Popen([sys.executable, "-c", LOOP, root, haid], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(chance.randrange(1, 25)):
            fences.append(int(child.stdout.readline()))
        child.send_signal(signal.SIGKILL)
        fences += [int(line) for line in child.stdout.read().splitlines() if line.isdigit()]
        child.wait()
        child.stdout.close()
        claims = Claims(Planning(root))
        for claim in claims.active():
            claims.release(BOB, claim.haid, force=True, reason="killed")
        for name in os.listdir(claims.directory):
            json.loads((Path(claims.directory) / name).read_text())
    assert fences == sorted(set(fences)), "no fence is given twice"


# Against the original tools, which lock by mkdir...


def test_the_original_tools_and_ours_keep_each_other_out(claims: Claims, tmp_path: Path) -> None:
    directory = Path(claims.planning.path("ledger", "claims.lock"))
    with claims.lock():
        assert directory.is_dir()
        assert subprocess.run(["mkdir", str(directory)], capture_output=True).returncode != 0
    assert not directory.exists()
    directory.mkdir()  # now the original tool holds it, and releases it a little later
    other = subprocess.Popen(["sh", "-c", f"sleep 0.3; rmdir {directory}"])
    claims.claim(ANN, ["src"], "T-1")
    assert other.wait() == 0


def test_a_lock_that_a_dead_original_left_is_broken_when_it_is_old(claims: Claims) -> None:
    directory = claims.planning.path("ledger", "claims.lock")
    os.makedirs(directory)
    os.utime(directory, (time.time() - 31, time.time() - 31))
    claims.claim(ANN, ["src"], "T-1")

"""Who waits for whom."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.coordination.conftest import Run
from treadle.coordination.claim import WAIT_SECONDS, Waits, wait_text
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002/coder"


def test_a_wait_is_remembered_since_it_began_and_forgotten_when_nobody_asks_any_more(tmp_path: Path) -> None:
    now = [1_781_179_647.0]
    waits = Waits(Planning(str(tmp_path), project=str(tmp_path), clock=lambda: now[0]))
    assert waits.all() == []
    waits.put(BOB, ["src/a"], "T-2", [ANN, ANN])
    now[0] += 60
    waits.put(BOB, ["src/a"], "T-2", [ANN])
    (wait,) = waits.on(ANN)
    assert wait_text(wait) == f"{BOB} waits for src/a since 2026-06-11T12:07:27Z (task T-2)"
    assert waits.on(BOB) == []
    now[0] += WAIT_SECONDS
    assert waits.all() == []


def test_what_is_no_wait_is_left_alone(tmp_path: Path) -> None:
    waits = Waits(Planning(str(tmp_path), project=str(tmp_path)))
    waits.put(BOB, ["src"], "T", [ANN])
    for number, text in enumerate(("{", "[]", '{"asked": 1}', '{"holders": [], "haid": "x"}')):
        (tmp_path / "waits" / f"{number}.json").write_text(text)
    assert [wait["haid"] for wait in waits.all()] == [BOB]
    waits.drop(BOB)
    waits.drop(BOB)
    assert waits.all() == []


def test_a_wait_ends_when_the_holder_releases_or_time_is_over(installed: Run, heimdall: Run, project: Path) -> None:
    heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID=ANN)
    over = heimdall("claim", "wait", "src/a", "--timeout", "0", HEIMDALL_HAID=BOB)
    assert over.returncode == 3 and f"held by {ANN}" in over.stderr
    claims = Claims(Planning(project=str(project)), str(project))
    claims.waits.drop(BOB)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(installed, "claim", "wait", "src/a", "--timeout", "60", HEIMDALL_HAID=BOB)
        end = time.monotonic() + 60
        while "waits" not in str(claims.waits.on(ANN)) and time.monotonic() < end:
            time.sleep(0.01)
        heimdall("claim", "release", HEIMDALL_HAID=ANN)
        done = waiting.result()
    assert (done.returncode, done.stdout) == (0, "free: src/a\n")
    assert claims.waits.all() == []


def test_an_agent_that_was_refused_is_told_once_when_it_is_free(project: Path) -> None:
    claims = Claims(Planning(project=str(project)), str(project))
    claims.claim(ANN, ["src"], "T")
    claims.waits.put(BOB, ["src/a"], "edit", [ANN])
    assert claims.freed(BOB) == []
    claims.release(ANN)
    assert claims.freed(BOB) == ["src/a"] and claims.freed(BOB) == []

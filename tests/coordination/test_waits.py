"""Who waits for whom."""

from pathlib import Path

from treadle.coordination.planning import Planning
from treadle.coordination.waits import WAIT_SECONDS, Waits, told

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002/coder"


def test_a_wait_is_remembered_since_it_began_and_forgotten_when_nobody_asks_any_more(tmp_path: Path) -> None:
    now = [1_781_179_647.0]
    waits = Waits(Planning(str(tmp_path), project=str(tmp_path), clock=lambda: now[0]))
    assert waits.all() == []
    waits.put(BOB, ["src/a"], "T-2", [ANN, ANN])
    now[0] += 60
    waits.put(BOB, ["src/a"], "T-2", [ANN])
    (wait,) = waits.on(ANN)
    assert told(wait) == f"{BOB} waits for src/a since 2026-06-11T12:07:27Z (task T-2)"
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

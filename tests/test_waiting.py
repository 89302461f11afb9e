"""Tests wait for what they want to see: what CONTRIBUTING says about sleeps is counted here."""

import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
TIME_IS_THE_POINT = {
    "agent/test_session.py": "an interrupt at a random moment",
    "doors/oneshot/test_run.py": "how long a command took",
    "drivers/claude/test_control.py": "a task that must not end by itself",
    "fleet/engine/test_events.py": "events that come while the engine is restarted",
    "fleet/schedule/test_scheduler.py": "a process that stands still",
    "io/process/hostile.py": "programs that must not end by themselves",
    "io/sandbox/test_start.py": "what was ended writes no more",
    "safety/test_ends.py": "a kill at a random moment",
    "stand_ins/replay.py": "a program that must not end by itself",
    "terminal/random_sends.py": "a send at a random moment",
    "terminal/schedules.py": "a program that answers at a random moment",
    "terminal/test_supervisor.py": "a processor that is not burnt meanwhile",
}
"""The files with a sleep that is neither 0 nor in a loop that looks again. Soaks are not looked at."""


def sleeps(file: Path) -> list[ast.Call]:
    """The calls that let a time go by without looking at anything."""
    tree = ast.parse(file.read_text())
    looking = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.While) for inner in ast.walk(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func) in ("time.sleep", "asyncio.sleep", "sleep")]
    return [
        call for call in named if id(call) not in looking and [ast.unparse(each) for each in call.args[:1]] != ["0"]
    ]


def test_a_test_sleeps_only_to_look_again_to_give_way_or_where_time_is_the_point() -> None:
    files = [path for path in TESTS.rglob("*.py") if b"sleep(" in path.read_bytes()]
    found = Counter(
        name
        for path in files
        for name in [str(path.relative_to(TESTS))] * len(sleeps(path))
        if not name.startswith(("soak/", "live/")) and path.name != "soak.py"
    )
    assert set(found) == set(TIME_IS_THE_POINT), "wait for an event, or look again with `until`"

import re

from treadle.terminal.viewers.panel import Bar


def shown(bar: Bar, cols: int, now: float) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", bar.line(cols, now))


def test_it_shows_name_state_and_time_and_what_is_waited_for() -> None:
    bar = Bar("a1")
    assert shown(bar, 40, 0.0).rstrip().endswith("...")
    bar.state({"name": "streaming", "since_ms": 2000})
    assert shown(bar, 60, bar._since + 75).rstrip().endswith("streaming 1m15s")
    bar.state({"name": "idle", "waiting_for": "permission", "since_ms": 0})
    assert "waiting: permission 3s" in shown(bar, 60, bar._since + 3)


def test_keys_are_named_where_there_is_room_and_colours_say_the_state() -> None:
    bar = Bar("x", "Ctrl-]")
    bar.state({"name": "idle", "since_ms": 0, "agent": "codex"})
    assert shown(bar, 60, bar._since).endswith("Ctrl-]: more  idle 0s ") and "[treadle] x  codex" in shown(bar, 60, 0)
    assert "more" not in shown(bar, 36, bar._since)
    for state, colour in (({"name": "idle"}, 32), ({"name": "thinking"}, 33), ({"name": "odd"}, 37)):
        bar.state({**state, "since_ms": 0})
        assert f"\x1b[7;{colour}m {state['name']} " in bar.line(60, bar._since)
    bar.state({"name": "idle", "waiting_for": "question", "since_ms": 0})
    assert "\x1b[7;31m waiting: question" in bar.line(60, bar._since)

from treadle.wire.oneshot.names import OURS, THEIRS


def test_every_tool_of_ours_that_claude_code_has_too_has_its_name() -> None:
    assert set(THEIRS) == set(OURS.values())
    assert all(OURS[theirs] == ours for ours, theirs in THEIRS.items())


def test_of_two_names_the_older_one_is_written() -> None:
    assert OURS["Task"] == OURS["Agent"] == "task" and THEIRS["task"] == "Task"

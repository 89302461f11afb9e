"""What is typed while the agent starts."""

from treadle.cli.chat.command import Early


def test_what_is_typed_is_kept_in_order_and_the_last_can_be_taken_back() -> None:
    early = Early(["first"])
    early.enter("second")
    early.queue("third")
    assert early.unqueue() == "third" and early.typed == ["first", "second"]
    assert Early([]).unqueue() is None


async def test_nothing_runs_and_leaving_gives_up_the_start() -> None:
    early, left = Early([]), []
    early.gave_up = lambda: left.append("left")
    assert not early.busy and not early.interrupt()
    await early.rest()
    early.quit()
    early.leave()
    assert left == ["left", "left"]

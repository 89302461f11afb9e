import os
import time

from treadle.terminal.loop import READ, WRITE, Loop


def test_a_hang_up_is_reported_as_what_was_asked_for() -> None:
    loop, (read, write), seen = Loop(), os.pipe(), []
    loop.watch(read, READ, seen.append)
    os.close(write)
    loop.turn()
    assert seen == [READ]
    loop.forget(read)
    os.close(read)
    read, write = os.pipe()
    os.close(read)
    loop.watch(write, WRITE, seen.append)
    loop.turn()
    assert seen == [READ, WRITE]
    os.close(write)


def test_one_that_is_closed_by_another_in_the_same_turn_is_left_alone() -> None:
    loop, seen = Loop(), []
    pipes = [os.pipe() for _ in range(2)]

    def act(number: int) -> None:
        seen.append(number)
        other = pipes[1 - number][0]
        loop.forget(other)

    for number, (read, write) in enumerate(pipes):
        loop.watch(read, READ, lambda events, number=number: act(number))
        os.write(write, b"x")
    loop.turn()
    assert len(seen) == 1
    for pair in pipes:
        for fd in pair:
            os.close(fd)


def test_times_come_in_order_can_be_moved_and_cancelled() -> None:
    loop, seen, now = Loop(), [], time.monotonic()
    loop.at("a", now + 0.02, lambda: seen.append("a"))
    loop.at("b", now + 0.01, lambda: seen.append("b"))
    loop.at("c", now + 0.01, lambda: seen.append("c"))
    loop.at("a", now + 0.03, lambda: seen.append("later"))
    loop.cancel("c", "unknown")
    while len(seen) < 2:
        loop.turn()
    assert seen == ["b", "later"]


def test_a_time_that_is_years_away_keeps_nothing_from_happening() -> None:
    loop, seen = Loop(), []
    read, write = os.pipe()
    loop.at("far", time.monotonic() + 1e9, lambda: seen.append("early"))
    loop.watch(read, READ, lambda events: seen.append("read"))
    os.write(write, b"x")
    loop.turn()
    assert seen == ["read"]
    os.close(read)
    os.close(write)


def test_a_time_that_another_moves_does_not_come_at_once() -> None:
    loop, seen, now = Loop(), [], time.monotonic()
    loop.at("first", now, lambda: loop.at("second", time.monotonic() + 60, lambda: seen.append("wrong")))
    loop.at("second", now, lambda: seen.append("early"))
    loop.at("third", now, lambda: seen.append("third"))
    loop.turn()
    assert seen == ["third"] and loop.has("second")


def test_one_that_is_watched_anew_by_another_in_the_same_turn_waits_for_the_next() -> None:
    loop, seen = Loop(), []
    pipes = [os.pipe() for _ in range(2)]

    def act(number: int) -> None:
        seen.append(number)
        other = pipes[1 - number][0]
        loop.forget(other)  # as if another file had got its number
        loop.watch(other, READ, lambda events: seen.append(-1))

    for number, (read, write) in enumerate(pipes):
        loop.watch(read, READ, lambda events, number=number: act(number))
        os.write(write, b"x")
    loop.turn()
    assert len(seen) == 1 and seen[0] >= 0
    for pair in pipes:
        for fd in pair:
            os.close(fd)

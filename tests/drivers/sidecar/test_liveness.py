"""When a sidecar counts as stalled, by the clock alone."""

from treadle.drivers.sidecar.peer import Liveness, Timing

TIMING = Timing(ping_every=30, pong_within=10, missed_pongs=3, quiet=600)


def test_one_that_never_answered_is_stalled_only_when_silent_and_idle() -> None:
    live = Liveness(TIMING, 0.0)
    for number in range(100):
        live.pinged(number, number * 30.0)
    assert live.stalled(599.0) is None
    live.used_cpu(1.5, 590.0)
    assert live.stalled(1100.0) is None, "it worked"
    live.used_cpu(1.51, 591.0)
    live.used_cpu(1.51, 1100.0)
    assert live.stalled(1191.0) is None and "no CPU" in (live.stalled(1191.5) or "")
    live.heard(1191.0)
    assert live.stalled(1700.0) is None


def test_one_that_answered_and_then_misses_three_is_stalled() -> None:
    live = Liveness(TIMING, 0.0)
    live.pinged(1, 30.0)
    live.heard(31.0)
    assert live.ponged(1)
    for number in (2, 3, 4):
        live.pinged(number, number * 30.0)
        assert live.stalled(number * 30.0 + 5) is None
    assert "3 in a row" in (live.stalled(131.0) or "")


def test_one_that_talks_is_alive_even_if_it_stopped_answering() -> None:
    live = Liveness(TIMING, 0.0)
    live.pinged(1, 30.0)
    live.ponged(1)
    for number in (2, 3, 4, 5):
        live.pinged(number, number * 30.0)
    live.heard(155.0)
    assert live.stalled(170.0) is None


def test_a_late_answer_answers_all_before_it_and_a_strange_one_none() -> None:
    live = Liveness(TIMING, 0.0)
    live.pinged(1, 0.0)
    live.pinged(2, 1.0)
    assert not live.ponged(7) or not live.open
    live.pinged(8, 2.0)
    assert live.ponged(8) and live.open == {}


def test_at_exactly_the_limit_it_is_still_in_time() -> None:
    usual = Timing()
    assert not usual.strict_pong and usual.missed_pongs == 3
    live = Liveness(TIMING, 0.0)
    assert live.stalled(600.0) is None and live.stalled(600.1) is not None
    strict = Liveness(Timing(strict_pong=True, pong_within=10), 0.0)
    strict.pinged(1, 0.0)
    assert strict.stalled(10.0) is None and strict.stalled(10.1) is not None
    answering = Liveness(TIMING, 0.0)
    answering.pinged(1, 0.0)
    assert answering.ponged(1)
    answering.heard(30.0)
    for number in (2, 3, 4):
        answering.pinged(number, 30.0)
    assert answering.stalled(40.0) is None, "they are not late yet"
    assert answering.stalled(41.0) is not None, "what was sent when it last spoke counts as missed"
    assert answering.stalled(5000.0) is not None and not Liveness(TIMING, 0.0).answers


def test_an_answer_to_a_ping_that_was_not_sent_is_none_and_forgets_no_later_one() -> None:
    live = Liveness(TIMING, 0.0)
    live.pinged(5, 0.0)
    assert not live.ponged(4) and live.open == {5: 0.0} and not live.answers
    assert live.ponged(5) and live.answers and not live.ponged(5) and live.answers
    for number in range(1001):
        live.pinged(number, 1.0)
    assert len(live.open) == 1000 and 0 not in live.open
    live.used_cpu(0.0, 50.0)
    assert live.active == 0.0, "none was used"

"""When a sidecar counts as stalled, by the clock alone."""

from treadle.drivers.sidecar.peer import Liveness, Timing

TIMING = Timing(ping_every=30, pong_within=10, missed_pongs=3, quiet=600)


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

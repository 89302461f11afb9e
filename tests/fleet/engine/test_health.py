"""An engine is started again when it is broken, and left alone while it is slow."""

from treadle.fleet.engine.server import BROKEN_LOOKS, SILENT_LOOKS, SILENT_SECONDS, EngineHealth


def test_one_that_answers_and_stores_nothing_is_broken() -> None:
    health = EngineHealth(0.0)
    said = [health.not_stored(25, float(number)) for number in range(BROKEN_LOOKS)]
    assert not any(said[:-1]) and "stores nothing" in said[-1] and health.failing


def test_one_that_stores_late_is_slow_however_often() -> None:
    health = EngineHealth(0.0)
    assert not any(health.not_stored(25 + number, 10.0 * number) for number in range(1000))


def test_what_it_stores_at_last_makes_it_sound_again() -> None:
    health = EngineHealth(0.0)
    for number in range(100):
        assert not health.not_stored(25, float(number)) and not health.not_stored(25, number + 0.5)
        health.stored(float(number))
        assert not health.failing


def test_one_that_is_silent_has_minutes() -> None:
    health = EngineHealth(0.0)
    step = SILENT_SECONDS / SILENT_LOOKS
    assert not any(health.not_stored(None, step * number) for number in range(SILENT_LOOKS + 1))
    assert "answered nothing for" in health.not_stored(None, SILENT_SECONDS + 1)


def test_where_we_stood_still_ourselves_the_first_silence_proves_nothing() -> None:
    assert not EngineHealth(0.0).not_stored(None, 10 * SILENT_SECONDS)


def test_silence_counts_by_looks_and_by_time_and_an_answer_ends_it() -> None:
    health = EngineHealth(0.0)
    assert not health.failing
    for number in range(SILENT_LOOKS - 1):
        assert health.not_stored(None, 2 * SILENT_SECONDS + number) == ""
    assert health.not_stored(None, 2 * SILENT_SECONDS + 9) == "it has answered nothing for 249 s"
    exact = EngineHealth(0.0)
    for _ in range(SILENT_LOOKS):
        assert exact.not_stored(None, SILENT_SECONDS) == ""
    assert exact.not_stored(7, SILENT_SECONDS) == "" and exact.failing
    for number in range(SILENT_LOOKS):
        assert exact.not_stored(None, 2 * SILENT_SECONDS - 1 + number / SILENT_LOOKS) == ""
    assert exact.not_stored(None, 2 * SILENT_SECONDS + 1) != ""


def test_only_the_same_answer_in_a_row_says_that_nothing_is_stored() -> None:
    health = EngineHealth(0.0)
    assert [bool(health.not_stored(last, 1.0)) for last in (5, 5, 6, 6, 6)] == [False, False, False, False, True]
    health.stored(2.0)
    assert [bool(health.not_stored(6, 3.0)) for _ in range(BROKEN_LOOKS)] == [False, False, True]

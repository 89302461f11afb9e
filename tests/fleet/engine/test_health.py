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

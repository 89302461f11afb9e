from treadle.wire.common.jsontext import timestamp


def test_a_timestamp_is_utc_with_milliseconds() -> None:
    assert timestamp(1_700_000_000.1234) == "2023-11-14T22:13:20.123Z"

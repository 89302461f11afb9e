"""The streams: made, brought up to date, refused when newer."""

import pytest

from treadle.errors import StorageError
from treadle.fleet.engine import layout
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus


async def test_the_state_has_no_limit_that_would_drop_orders_and_keeps_one_value_of_each_key(bus: Bus) -> None:
    for number in range(5):
        await bus.put("order.a", b"%d" % number)
    info = await bus.api(f"STREAM.INFO.{STATE}")
    assert info["config"]["max_bytes"] == -1 and info["config"]["max_age"] == 0
    assert not info["config"].get("subject_delete_marker_ttl")
    assert info["state"]["messages"] == 1


async def test_what_grows_is_bounded(bus: Bus) -> None:
    for name in (INBOX, EVENTS, layout.OBJECTS):
        assert (await bus.api(f"STREAM.INFO.{name}"))["config"]["max_bytes"] > 0


async def test_a_stream_of_an_older_program_is_brought_up_to_date_and_keeps_what_it_holds(bus: Bus) -> None:
    await bus.publish("fleet.ev.o.1.n", b"{}")
    config = (await bus.api(f"STREAM.INFO.{EVENTS}"))["config"]
    await bus.api(f"STREAM.UPDATE.{EVENTS}", {**config, "max_bytes": 1024**3, "metadata": {"treadle_format": "0"}})
    await layout.ensure(bus)
    info = await bus.api(f"STREAM.INFO.{EVENTS}")
    assert info["config"]["max_bytes"] == 8 * 1024**3 and info["state"]["messages"] == 1
    assert info["config"]["metadata"]["treadle_format"] == str(layout.FORMAT)


async def test_a_stream_of_a_newer_program_is_refused_and_left_alone(bus: Bus) -> None:
    config = (await bus.api(f"STREAM.INFO.{EVENTS}"))["config"]
    newer = {**config, "metadata": {"treadle_format": str(layout.FORMAT + 1)}}
    await bus.api(f"STREAM.UPDATE.{EVENTS}", newer)
    with pytest.raises(StorageError, match="upgrade treadle"):
        await layout.ensure(bus)


async def test_the_scheduler_is_given_each_message_until_it_has_dealt_with_it(bus: Bus) -> None:
    for stream, name in ((STATE, "intake"), (INBOX, "inbox")):
        config = (await bus.api(f"CONSUMER.INFO.{stream}.{name}"))["config"]
        assert config["max_deliver"] == -1 and config["ack_policy"] == "explicit"

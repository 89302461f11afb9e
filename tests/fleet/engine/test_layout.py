"""The streams: made, brought up to date, refused when newer."""

import pytest

from treadle.errors import StorageError
from treadle.fleet.engine import layout
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus, EngineRefused


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


async def test_what_is_up_to_date_is_left_alone_and_keeps_what_others_noted_on_it(bus: Bus) -> None:
    config = (await bus.api(f"STREAM.INFO.{EVENTS}"))["config"]
    noted = {**config["metadata"], "theirs": "1"}
    await bus.api(f"STREAM.UPDATE.{EVENTS}", {**config, "metadata": noted, "description": "ours"})
    before = (await bus.api(f"STREAM.INFO.{EVENTS}"))["config"]
    await layout.ensure(bus)
    assert (await bus.api(f"STREAM.INFO.{EVENTS}"))["config"] == before
    await bus.api(f"STREAM.UPDATE.{EVENTS}", {**before, "metadata": {"theirs": "1"}})
    await layout.ensure(bus)
    after = (await bus.api(f"STREAM.INFO.{EVENTS}"))["config"]
    assert after["metadata"]["theirs"] == "1" and after["metadata"]["treadle_format"] == "1"
    assert after["description"] == "ours"


async def test_where_there_is_no_room_it_is_said_how_much_is_needed(bus: Bus) -> None:
    wanted = {**layout.streams(1)[2], "name": "HUGE", "subjects": ["huge.>"], "max_bytes": 10**15}
    with pytest.raises(StorageError, match="the engine has no room for the stream HUGE") as refused:
        await layout._ensure_stream(bus, wanted)
    assert refused.value.hint == "set max_file_store in its JetStream settings to more than 18 GB"
    with pytest.raises(EngineRefused):
        await layout._ensure_stream(bus, {**wanted, "max_bytes": 10**6, "retention": "nonsense"})

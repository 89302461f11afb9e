"""The engine as the fleet uses it. Most of these are traps that somebody fell into."""

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from msgspec.structs import replace
from nats.aio.msg import Msg

from tests.fleet.engine.buses import ScriptedClient, restart
from tests.fleet.engine.buses import client as client
from tests.fleet.engine.buses import pauses as pauses
from tests.fleet.engine.test_roles import fleet as fleet
from treadle.errors import Denied, StorageError
from treadle.fleet.engine import bus as engine
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import (
    ANSWER_MAX,
    BATCH_MAX,
    EVENTS,
    STATE,
    Bus,
    EngineRefused,
    Stale,
    Unreachable,
    Write,
    is_relayed,
)
from treadle.fleet.orders import encode
from treadle.wire.fleet.messages import StopRun


async def test_a_key_is_created_once(bus: Bus) -> None:
    async def create(value: bytes) -> bool:
        try:
            await bus.put("order.a", value, expect=0)
        except Stale:
            return False
        return True

    won = await asyncio.gather(*(create(b"%d" % number) for number in range(32)))
    assert sum(won) == 1


async def test_a_key_is_replaced_only_at_the_revision_that_was_read(bus: Bus) -> None:
    first = await bus.put("order.a", b"1", expect=0)
    second = await bus.put("order.a", b"2", expect=first)
    with pytest.raises(Stale):
        await bus.put("order.a", b"3", expect=first)
    entry = await bus.get("order.a")
    assert entry is not None and (entry.value, entry.revision) == (b"2", second)
    assert await bus.get("order.a", latest=True) == entry


async def test_a_lease_that_is_renewed_still_ends_when_it_is_not(bus: Bus) -> None:
    revision = await bus.put("lease.x", b"me", expect=0, ttl=2)
    revision = await bus.put("lease.x", b"me", expect=revision, ttl=600)
    await bus.put("lease.beside", b"another", ttl=2)
    await until_ended(bus, "lease.beside")
    assert await bus.get("lease.x") is not None
    revision = await bus.put("lease.x", b"me", expect=revision, ttl=1)
    await until_ended(bus, "lease.x")
    assert await bus.put("lease.x", b"another", expect=0, ttl=1) > revision


async def until_ended(bus: Bus, key: str) -> None:
    async with asyncio.timeout(60):
        while await bus.get(key) is not None:
            await asyncio.sleep(0.05)


async def test_what_has_ended_by_time_shows_no_older_value(bus: Bus) -> None:
    await bus.put("lease.x", b"old")
    await bus.put("lease.x", b"new", ttl=1)
    async with asyncio.timeout(60):
        while (entry := await bus.get("lease.x")) is not None:
            assert entry.value == b"new"
            await asyncio.sleep(0.05)


async def test_a_batch_is_written_whole_or_not_at_all(bus: Bus) -> None:
    revision = await bus.put("order.a", b"1", expect=0)
    with pytest.raises(Stale):
        await bus.batch([Write("order.b", b"1", 0), Write("order.a", b"2", revision + 5)])
    assert await bus.get("order.b") is None
    last = await bus.batch([Write("order.a", b"2", revision), Write("order.b", b"1", 0), Write("active.a", purge=True)])
    first, second = await bus.get("order.a"), await bus.get("order.b")
    assert first is not None and second is not None
    assert (first.revision, second.revision) == (last - 2, last - 1)


async def test_a_batch_is_refused_whole_when_it_holds_too_much(bus: Bus) -> None:
    with pytest.raises(ValueError, match="1001 writes are more than fit into one batch"):
        await bus.batch([Write("a")] * (BATCH_MAX + 1))
    assert await bus.get("a") is None and await bus.batch([Write("a", b"1", 0)]) > 0


async def test_a_purged_key_is_gone_and_can_be_created_again(bus: Bus) -> None:
    await bus.put("work.n.a", b"1")
    await bus.purge("work.n.a")
    assert await bus.get("work.n.a") is None and await bus.named(["work.n.*"]) == {}
    async with asyncio.timeout(60):
        while True:
            try:
                await bus.put("work.n.a", b"2", expect=0)
                break
            except Stale:  # until its tombstone has gone too
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_what_was_removed_or_has_ended_does_not_return_when_the_engine_is_killed(
    fleet: places.Fleet, bus: Bus
) -> None:
    stays = await bus.put("control", b"stays", expect=0)
    for value in (b"1", b"2", b"3"):
        await bus.put("boards.purged", value)
        await bus.put("active.batched", value)
        await bus.put("lease.ended", value, ttl=1)
    await bus.purge("boards.purged")
    await bus.batch([Write("control", b"stays", stays), Write("active.batched", purge=True)])
    async with asyncio.timeout(60):  # until the markers have gone too
        while (await bus.api(f"STREAM.INFO.{STATE}"))["state"]["messages"] > 1:
            await asyncio.sleep(0.1)
    restart(fleet)
    again = await server.await_ready(fleet)
    found = {key for key in await again.keys(">") if await again.get(key) is not None}
    await again.close()
    assert found == {"control"}


async def test_a_write_that_is_not_allowed_is_told_as_that(fleet: places.Fleet) -> None:
    watching = await Bus.connect(fleet.address("watch"))
    try:
        with pytest.raises(Denied, match="may not write"):
            await watching.publish("$KV.fleet.order.a", b"1", None)
        assert await watching.get("order.a") is None
    finally:
        await watching.close()


async def test_a_request_that_nobody_answers_ends(fleet: places.Fleet, bus: Bus) -> None:
    with pytest.raises(Unreachable):
        await bus.ask("fleet.ask.nothing", dict, timeout=1)
    server.stop()
    with pytest.raises(Unreachable):
        await bus.request("$JS.API.INFO", timeout=0.5)


async def test_the_newest_keys_are_found_whatever_lies_before_them(bus: Bus) -> None:
    for number in range(30):
        await bus.put(f"order.o{number}", b"%d" % number)
        for other in range(5):
            await bus.put(f"node.x{other}", b"-")
    await bus.put("order.o3", b"again")
    found = await bus.newest("order.*", 4)
    assert [entry.key for entry in found] == ["order.o3", "order.o29", "order.o28", "order.o27"]
    rest = await bus.newest("order.*", 100, before=found[-1].revision)
    assert len(rest) == 26 and rest[0].key == "order.o26" and rest[-1].key == "order.o0"
    assert len(await bus.keys("order.*")) == 30
    assert set(await bus.named(["order.o1", "order.none"])) == {"order.o1"}


async def test_a_pattern_stands_for_all_that_match_it_however_many(bus: Bus) -> None:
    every = [f"landed.o{number}.main" for number in range(ANSWER_MAX + 100)]
    for start in range(0, len(every), 500):
        await bus.batch([Write(key, b"1") for key in every[start : start + 500]])
    await bus.put("node.n1", b"2")
    assert set(await bus.named(["node.*", "landed.*.main", "none.*"])) == {*every, "node.n1"}
    fitting = every[:ANSWER_MAX]
    await bus.batch([Write(key, purge=True) for key in every[ANSWER_MAX:]])
    assert set(await bus.named(["landed.*.*"])) == set(fitting)


async def test_an_answer_that_breaks_off_is_asked_for_again(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server does so when a message that it had found is gone, as by expiring, before it has sent it."""
    monkeypatch.setattr(engine, "STATE", "KV_other")
    ends = [{"Status": "404", "Description": "Message Not Found"}, {"Status": "204", "Description": "EOB"}]

    async def answer(request: Msg) -> None:
        end = ends.pop(0)
        for number in range(len(ends), 2):
            headers = {"Nats-Subject": f"$KV.fleet.node.n{number}", "Nats-Sequence": "1"}
            await bus.client.publish(request.reply, b"1", headers=headers)
        await bus.client.publish(request.reply, b"", headers=end)

    await bus.client.subscribe("$JS.API.DIRECT.GET.KV_other", cb=answer)
    assert set(await bus.named(["node.*"])) == {"node.n0", "node.n1"} and not ends


async def test_a_long_answer_may_take_its_time_while_it_comes(
    fleet: places.Fleet, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with too much to do: the patience is for the next part of it, not for all of it."""
    monkeypatch.setattr(engine, "LOOK_SECONDS", (2.0,))
    for number in range(30):
        await bus.put(f"order.{number}", bytes(1000))
    url = urlsplit(fleet.url)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(url.hostname, url.port)

        async def to_engine() -> None:
            while data := await reader.read(65536):
                far_writer.write(data)
            far_writer.close()

        async def to_us() -> None:
            while data := await far_reader.read(1000):
                writer.write(data)
                await asyncio.sleep(0.1 if len(data) == 1000 else 0)
            writer.close()

        await asyncio.gather(to_engine(), to_us(), return_exceptions=True)

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as relaying:
        port = relaying.sockets[0].getsockname()[1]
        slow = await Bus.connect(replace(fleet, url=f"nats://127.0.0.1:{port}").address("admin"))
        began = time.monotonic()
        found = await slow.named([f"order.{number}" for number in range(30)])
        assert len(found) == 30 and time.monotonic() - began > 2.0, "it took longer than the patience"
        await slow.close()


async def test_more_than_a_thousand_readers_fit(bus: Bus) -> None:
    info = await bus.api(f"STREAM.INFO.{STATE}")
    assert info["config"]["max_consumers"] >= 10_000


TOLD = "fleet.tell.n1.o"


async def test_a_worker_cannot_have_the_engine_send_its_instructions_to_others(fleet: places.Fleet, bus: Bus) -> None:
    heard: list[bytes] = []
    arrived = asyncio.Event()

    async def obey(subject: str, data: bytes) -> bytes:
        heard.append(data)
        arrived.set()
        return b"{}"

    await bus.serve(TOLD, obey)
    worker = await Bus.connect(fleet.address("worker:n2"))
    try:
        order = encode(StopRun(why="evil"))
        await worker.publish("fleet.ev.o.1.n2", order)
        config = {"ack_policy": "none", "deliver_policy": "all", "filter_subject": "fleet.ev.o.1.n2"}
        for name, more in (("push", {"deliver_subject": TOLD}), ("pull", {})):
            request = {"stream_name": EVENTS, "config": {**config, **more, "name": name}}
            await worker.api(f"CONSUMER.CREATE.{EVENTS}.{name}", request)
        next_one = msgspec.json.encode({"batch": 1})
        await worker.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{EVENTS}.pull", next_one, reply=TOLD)
        await worker.client.publish(f"$JS.API.DIRECT.GET.{EVENTS}.fleet.ev.o.1.n2", b"", reply=TOLD)
        await worker.client.flush()
        # A second round through the engine: what it was made to send before has arrived by then.
        await worker.api(f"STREAM.INFO.{EVENTS}")
        await bus.api(f"STREAM.INFO.{EVENTS}")
        real = encode(StopRun(why="a person said so"))
        await bus.tell(TOLD, real)
        await asyncio.wait_for(arrived.wait(), 60)
        assert heard == [real]
    finally:
        await worker.close()


# Without an engine: what is sent, and what each answer means...


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ({"err_code": 10071}, Stale, "STREAM.X"),
        ({"err_code": 10164}, Stale, "STREAM.X"),
        ({"err_code": 10077, "description": "no room"}, StorageError, "the engine's store is full: no room"),
        ({"code": 503, "description": "no leader"}, Unreachable, "the engine cannot store now: no leader"),
        ({"code": 400, "err_code": 10025, "description": "bad"}, EngineRefused, "the engine refused STREAM.X: bad"),
    ],
)
async def test_each_refusal_is_told_as_what_it_is(
    client: ScriptedClient, error: dict[str, Any], kind: type[Exception], says: str
) -> None:
    client.answers = [{"error": error}]
    with pytest.raises(kind) as raised:
        await client.bus().api("STREAM.X")
    assert type(raised.value) is kind and says in str(raised.value)
    assert getattr(raised.value, "number", 10025) == 10025


async def test_what_is_served_is_answered_where_an_answer_is_wanted_and_never_for_the_engine(
    client: ScriptedClient,
) -> None:
    heard: list[tuple[str, bytes]] = []

    async def answer(subject: str, data: bytes) -> bytes | None:
        heard.append((subject, data))
        if data == b"bad":
            raise ValueError
        return None if data == b"quiet" else b"answer"

    listening = await client.bus().serve("fleet.x", answer)
    arrives = client.heard["fleet.x"]
    for data, reply in ((b"a", "back"), (b"b", ""), (b"quiet", "back"), (b"bad", "back")):
        await arrives(client.message(data, reply=reply))
    await arrives(client.message(b"evil", reply="back", Nats_Sequence=1))
    assert heard == [("subject", data) for data in (b"a", b"b", b"quiet", b"bad")]
    assert [sent[:2] for sent in client.sent] == [("back", b"answer")]
    await listening.unsubscribe()
    assert client.heard == {}


def test_what_the_engine_sends_out_of_a_stream_is_known_by_its_marks(client: ScriptedClient) -> None:
    assert not is_relayed(client.message(b"x", reply="_INBOX.1")) and not is_relayed(client.message(b"x", Other=1))
    assert is_relayed(client.message(b"x", reply="$JS.ACK.x"))
    for name in ("Nats_Stream", "Nats_Sequence", "Nats_Msg_Size", "Status", "Nats_Pending_Messages"):
        assert is_relayed(client.message(b"x", **{name: 1})), name


def entry(client: ScriptedClient, key: str, revision: int, **more: object) -> Msg:
    return client.message(b"v", Nats_Subject=f"$KV.fleet.{key}", Nats_Sequence=revision, **more)


class Connecting(ScriptedClient):
    """Notes with which options it is connected, and fails with what a test has laid ready."""

    tries: list[dict[str, Any]]
    errors: list[Exception | None]
    closed: int

    async def connect(self, **options: Any) -> None:
        Connecting.tries.append(options)
        if Connecting.errors and (error := Connecting.errors.pop(0)) is not None:
            raise error

    async def close(self) -> None:
        Connecting.closed += 1

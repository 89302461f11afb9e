"""What each role may do, by what the engine lets it do."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.fleet.conftest import Start, make_fleet, spec
from treadle.errors import Denied
from treadle.fleet import client
from treadle.fleet.engine import bus as engine
from treadle.fleet.engine import layout, places, server, streams
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus


@pytest.fixture
async def fleet(nothing_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[places.Fleet]:
    monkeypatch.setattr(engine, "TIMEOUT", 1.0)
    made = make_fleet(users=("admin", "submit", "watch", "worker:n2"))
    server.start(made)
    bus = await server.await_ready(made)
    await layout.ensure(bus, lease=made.lease)
    await bus.close()
    yield made


async def test_who_may_submit_gives_orders_and_answers_and_writes_no_state(
    fleet: places.Fleet, bus: Bus, start_node: Start
) -> None:
    await start_node()
    giving = await Bus.connect(fleet.address("submit"))
    try:
        (given,) = await client.submit(giving, [spec()])
        assert (await client.wait(giving, given.id, 60)).state == "done"
        assert (await client.nodes(giving))[0].name == "n1"
        await client.pause(giving, "fleet")
        for key in ("order.x", "receipt.x", "lease.scheduler", "control"):
            with pytest.raises(Denied):
                await giving.request(f"$KV.fleet.{key}", b"{}", timeout=1)
    finally:
        await giving.close()


async def test_who_may_watch_sees_all_and_changes_nothing(fleet: places.Fleet, bus: Bus, start_node: Start) -> None:
    await start_node()
    (given,) = await client.submit(bus, [spec("null:0.1:3")])
    await client.wait(bus, given.id, 60)
    watching = await Bus.connect(fleet.address("watch"))
    try:
        assert (await client.get_order(watching, given.id)).state == "done"
        assert len([each async for each in client.events(watching, given.id)]) == 3
        keys = f"fleet.beat.n1.{given.id}.1.keys"
        for subject in ("$KV.fleet.spec.x", "fleet.in.wish.cancel", f"fleet.ev.{given.id}.1.n1", keys):
            with pytest.raises(Denied):
                await watching.request(subject, b"{}", timeout=1)
    finally:
        await watching.close()


async def test_a_worker_reports_only_as_itself(fleet: places.Fleet, bus: Bus) -> None:
    worker = await Bus.connect(fleet.address("worker:n2"))
    try:
        await worker.publish("fleet.in.node.n2.rate", b"{}")
        await worker.publish("fleet.ev.o.1.n2", b"{}")
        others = ("fleet.in.node.n1.ended", "fleet.ev.o.1.n1", "fleet.beat.n1.node", "fleet.in.wish.cancel")
        others += ("fleet.beat.n1.o.1.keys",)  # what the sessions of orders on n1 open with
        keys = ("order.o", "receipt.o", "answer.o.1", "spec.o", "lease.scheduler", "control", "node.n1", "work.n2.o")
        for subject in (*others, *(f"$KV.fleet.{key}" for key in keys)):
            with pytest.raises(Denied):
                await worker.request(subject, b"{}", timeout=1)
    finally:
        await worker.close()


VERBS = ("INFO", "DELETE", "CREATE", "DURABLE.CREATE", "MSG.NEXT", "PAUSE", "RESET", "UNPIN", "LEADER.STEPDOWN")
STREAM_VERBS = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "PURGE",
    "SNAPSHOT",
    "RESTORE",
    "MSG.DELETE",
    "MSG.GET",
    "LEADER.STEPDOWN",
)


async def refused(bus: Bus, subject: str, body: bytes = b"{}") -> bool:
    """Whether the engine lets no such request through; one that it answers with an error of its own was let through."""
    try:
        await bus.request(subject, body, timeout=1)
    except Denied:
        return True
    return False


@pytest.mark.parametrize("role", ["watch", "submit", "worker:n2"])
async def test_no_role_but_the_schedulers_touches_what_the_scheduler_takes_its_work_from(
    fleet: places.Fleet, bus: Bus, role: str
) -> None:
    await client.submit(bus, [spec()])  # no one schedules yet: it waits in the consumer
    other = await Bus.connect(fleet.address(role))
    try:
        for stream, config in layout.consumers(1.0):
            name = f"{stream}.{config['durable_name']}"
            body = msgspec.json.encode({"stream_name": stream, "config": {**config, "max_deliver": 1}})
            for verb in VERBS:
                assert await refused(other, f"$JS.API.CONSUMER.{verb}.{name}", body), (verb, name)
            assert await refused(other, f"$JS.API.CONSUMER.CREATE.{name}.{config['filter_subject']}", body), name
        for stream in (STATE, INBOX, EVENTS, layout.OBJECTS):
            for verb in STREAM_VERBS:
                looks = (verb, stream) == ("MSG.GET", STATE)
                assert await refused(other, f"$JS.API.STREAM.{verb}.{stream}") != looks, (verb, stream)
            for acked in ("+ACK", "+TERM", "-NAK"):
                for name in ("intake", "inbox"):
                    assert await refused(other, f"$JS.ACK.{stream}.{name}.1.1.1.1.1", acked.encode()), (stream, acked)
        assert await refused(other, "$JS.API.CONSUMER.CREATE.FLEET_IN.r1")
        assert await refused(other, "$JS.API.CONSUMER.NAMES.KV_fleet") and await refused(other, "$JS.API.STREAM.LIST")
        for key in ("name", "durable_name"):  # the name in the subject counts, or it is an error
            disguised = {"stream_name": STATE, "config": {key: "intake", "ack_policy": "explicit", "max_deliver": 1}}
            subject = f"$JS.API.CONSUMER.CREATE.{STATE}.r1"
            answer = await other.request(subject, msgspec.json.encode(disguised), timeout=5)
            assert msgspec.json.decode(answer.data).get("name") in ("r1", None)
    finally:
        await other.close()
    left = await bus.api(f"CONSUMER.INFO.{STATE}.intake")
    assert left["num_pending"] == 1 and left["num_ack_pending"] == 0 and left["config"]["max_deliver"] == -1


@pytest.mark.parametrize("role", ["watch", "submit"])
async def test_who_looks_cannot_answer_for_those_who_are_asked(fleet: places.Fleet, role: str) -> None:
    other = await Bus.connect(fleet.address(role))
    try:
        for subject in (
            "fleet.tell.n2.o",
            "fleet.beat.n2.o.1",
            "fleet.in.node.n2.ended",
            "_INBOX_admin.x.y",
            "fleet.enrol.x",
        ):
            assert await refused(other, subject), subject
    finally:
        await other.close()


async def test_a_worker_stores_and_replaces_only_its_own_objects(fleet: places.Fleet, bus: Bus) -> None:
    await streams.put(bus, "n1/patch.o.1", b"of another")
    await streams.put(bus, "source.abc", b"of a submitter")
    worker, giving = await Bus.connect(fleet.address("worker:n2")), await Bus.connect(fleet.address("submit"))
    try:
        await streams.put(worker, "n2/patch.p.1", b"its own")
        assert await streams.get(worker, "n1/patch.o.1") == b"of another"
        for sender, name in ((worker, "n1/patch.o.1"), (worker, "source.abc"), (giving, "n1/patch.o.1")):
            with pytest.raises(Denied):
                await streams.put(sender, name, b"evil")
            with pytest.raises(Denied):
                await streams.put(sender, name, b"")
        await streams.put(giving, "source.def", b"a repository")
    finally:
        await worker.close()
        await giving.close()
    assert await streams.get(bus, "n1/patch.o.1") == b"of another"
    assert await streams.get(bus, "n2/patch.p.1") == b"its own"


def test_only_a_worker_may_reply_to_what_it_is_asked() -> None:
    users = {"admin": "a", "submit": "b", "watch": "c", "worker:n1": "d", "enrol:x": "e"}
    rows = [line for line in server.authorization(users).splitlines() if "user:" in line]
    assert [role for role, row in zip(users, rows, strict=True) if "allow_responses" in row] == ["worker:n1"]
    assert [role for role, row in zip(users, rows, strict=True) if "deny:" not in row] == ["admin"]


def test_each_role_may_publish_and_hear_only_what_is_its_own() -> None:
    assert server.permissions("admin") is server.permissions("node:n1") is None
    assert server.permissions("enrol:x") == {"publish": ["fleet.enrol.x"], "subscribe": ["_INBOX_enrol_x.>"]}
    watch, submit, worker = (server.permissions(role) or {} for role in ("watch", "submit", "worker:n1"))
    assert watch["subscribe"] == ["_INBOX_watch.>"] and submit["subscribe"] == ["_INBOX_submit.>"]
    assert worker["subscribe"] == ["_INBOX_worker_n1.>", "fleet.tell.n1.>", "fleet.term.n1.>"]
    assert set(watch["publish"]) < set(submit["publish"]) and "$KV.fleet.spec.*" not in worker["publish"]
    assert "fleet.in.node.n1.>" in worker["publish"] and "fleet.in.node.n1.>" not in submit["publish"]
    with pytest.raises(ValueError, match="there is no role 'guest:x'"):
        server.permissions("guest:x")
    first, second = server.authorization({"node:n1": "secret", "enrol:x": "once"}).splitlines()[2:4]
    assert first == '    {user: "node_n1", password: "secret"}'
    assert second.startswith(
        '    {user: "enrol_x", password: "once", permissions: {publish: {allow: ["fleet.enrol.x"], '
    )
    assert '"$JS.API.CONSUMER.*.KV_fleet.intake"' in second and second.endswith('subscribe: ["_INBOX_enrol_x.>"]}}')

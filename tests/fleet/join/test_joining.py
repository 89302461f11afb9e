"""A machine that comes with a code is let in, as soon as someone is there to do it."""

import asyncio
import base64
from pathlib import Path

import msgspec
import pytest

from tests.fleet.cluster import certificate
from tests.fleet.conftest import Start, make_fleet
from treadle.errors import ConfigError, Denied, LocalError, NotFound
from treadle.fleet import client, node, up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.join import invitations
from treadle.fleet.join.invitations import Invitation, invite, read


def encoded(invitation: Invitation) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(invitation)).decode()


async def test_a_machine_that_comes_before_anybody_lets_it_in_waits(bus: Bus, start_node: Start) -> None:
    found = read(invite("second"))
    with pytest.raises(Unreachable, match="no one there lets machines in"):
        await up._ask_in(found, "", 0.0)
    asking = asyncio.create_task(up._ask_in(found, "", 60.0))
    await start_node("n1")
    assert (await asking).name == "second"


async def test_a_machine_of_another_fleet_is_not_taken_and_what_is_no_code_neither(state_home: Path) -> None:
    make_fleet()
    code = encoded(Invitation(id="x", secret="s", url="nats://me:word@elsewhere:1"))
    with pytest.raises(LocalError, match="this machine belongs to the fleet at nats://127.0.0.1:") as refused:
        await up.join(code)
    assert refused.value.hint == "`treadle fleet down --forget`"
    with pytest.raises(ConfigError, match="this is not an invitation code"):
        await up.join("nothing")


async def test_an_engine_that_is_not_there_is_waited_for_as_long_as_asked_and_its_authority_is_kept(
    state_home: Path,
) -> None:
    gone = f"nats://127.0.0.1:{server.free_port()}"
    with pytest.raises(Unreachable):
        await up.join(encoded(Invitation(id="x", secret="s", url=gone)), patience=0.0)
    assert not Path(places.inside(), "ca.pem").exists()
    pem, _ = certificate(state_home)
    for ca in ("", str(pem)):
        with pytest.raises(Unreachable):
            await up.join(encoded(Invitation(id="x", secret="s", url=gone, ca=pem.read_text())), ca=ca, patience=0.0)
        stored = Path(places.inside(), "ca.pem")
        assert stored.exists() is (ca == "") and (not stored.exists() or stored.read_text() == pem.read_text())
        stored.unlink(missing_ok=True)
    with pytest.raises(NotFound):
        places.load()


async def test_a_wrong_code_is_told_at_once(fleet: places.Fleet) -> None:
    found = Invitation(id="x", secret="s", url=fleet.url)
    with pytest.raises(Denied, match="this code was already used or has expired") as refused:
        await up._ask_in(found, "", 60.0)
    assert refused.value.hint == "`treadle fleet invite` makes another"


async def test_a_machine_joins_as_a_worker_whose_node_the_scheduler_knows(
    bus: Bus, start_node: Start, fleet: places.Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await start_node("n1")
    code = invite("second")
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no systemd here
    # Both machines share this home: codes forgotten now would leave the engine the users that the joined one knows.
    monkeypatch.setattr(invitations, "GRACE_SECONDS", 600.0)
    name, keeper = await up.join(code, slots=2, labels=("gpu",), service=True)
    assert (name, keeper) == ("second", "the keeper")
    joined = places.load()
    assert not joined.private and set(joined.users) == {"worker:second", "watch"} and joined.lease == fleet.lease
    settings = node.load_settings("second")
    assert (settings.slots, settings.labels, settings.role, settings.schedule) == (2, ("gpu",), "worker:second", False)
    places.save(fleet)
    known = {each.name: each for each in await client.nodes(bus)}
    assert known["second"].alive and known["second"].slots == 2

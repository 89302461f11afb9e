"""Codes that let a machine in: each for one machine, for a while, and good for nothing else."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, make_fleet
from treadle.errors import ConfigError, Denied, LocalError, TreadleError
from treadle.fleet import up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.join import invitations


async def test_a_code_lets_one_machine_in_and_then_nobody(bus: Bus, start_node: Start, fleet: places.Fleet) -> None:
    await start_node("n1")
    code = invitations.invite("second")
    found = invitations.read(code)
    given = await up._ask_in(found, "", 5.0)
    assert given.name == "second" and set(given.users) == {"worker:second", "watch"}
    with pytest.raises((Denied, TreadleError), match="already used"):
        await up._ask_in(found, "", 5.0)
    async with asyncio.timeout(60):
        while any(role.startswith("enrol:") for role in places.load().users):
            await asyncio.sleep(0.05)
    with pytest.raises(Denied, match="already used"):
        await up._ask_in(found, "", 30.0)
    trusted = await up._ask_in(invitations.read(invitations.invite("mine", may="submit")), "", 5.0)
    assert set(trusted.users) == {"worker:mine", "submit"}
    late = invitations.read(invitations.invite("third", seconds=-1))
    with pytest.raises(Denied, match="has expired"):
        await up._ask_in(late, "", 5.0)


async def test_a_code_may_do_nothing_but_ask(bus: Bus, fleet: places.Fleet) -> None:
    found = invitations.read(invitations.invite("second"))
    role = f"enrol:{found.id}"
    asking = await Bus.connect(
        places.Fleet(url=found.url, users={role: found.secret}).address(role), name="thief", lasting=False
    )
    try:
        with pytest.raises(TreadleError):
            await asking.put("spec.stolen", b"{}", expect=0)
    finally:
        await asking.close()
    assert await bus.get("spec.stolen") is None


@pytest.fixture
def ours(state_home: Path) -> places.Fleet:
    """A fleet whose server is not up: it reads its users when it starts."""
    return make_fleet(users=("admin", "submit", "watch"))


def test_a_code_holds_all_that_the_other_machine_needs_and_its_user_is_kept(ours: places.Fleet, tmp_path: Path) -> None:
    found = invitations.read(f" {invitations.invite('second')}\n")
    assert (found.url, found.ca, found.format) == (ours.url, "", invitations.FORMAT)
    assert places.load().users == {**ours.users, f"enrol:{found.id}": found.secret}
    assert f'user: "enrol_{found.id}"' in Path(server.directory(), "server.conf").read_text()
    (tmp_path / "ca.pem").write_text("the authority")
    places.save(replace(places.load(), ca=str(tmp_path / "ca.pem")))
    other = invitations.read(invitations.invite("third", url="tls://elsewhere:1"))
    assert (other.url, other.ca) == ("tls://elsewhere:1", "the authority") and other.id != found.id
    (tmp_path / "ca.pem").unlink()
    assert invitations.read(invitations.invite("fourth")).ca == ""
    for name in ("", "a b", "x" * 41, "../x"):
        with pytest.raises(ConfigError, match="is not a valid name for a node") as refused:
            invitations.invite(name)
        assert refused.value.hint == "letters, digits, - and _, at most 40"
    places.save(replace(places.load(), private=False))
    with pytest.raises(LocalError, match="uses your own NATS server") as refused:
        invitations.invite("x" * 40)
    assert "treadle fleet up --nats URL --creds FILE" in (refused.value.hint or "")


@pytest.mark.parametrize("code", ["", "no code", "e30", "W10", "bnVsbA", "é"])
def test_what_is_no_code_is_told(code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        invitations.read(code)
    told = {"this is not an invitation code": "copy the whole code that `treadle fleet invite` printed"}
    told["the invitation has format None"] = "use one version of treadle on both machines"
    assert told[refused.value.message] == refused.value.hint


async def test_a_code_is_good_once_and_until_its_time_and_then_its_user_goes(fleet: places.Fleet) -> None:
    ours = fleet
    late = invitations.read(invitations.invite("late", seconds=-1)).id
    used, open_ = (invitations.read(invitations.invite(name)).id for name in ("used", "open"))
    given = invitations.enrol(used)
    users = places.load().users
    assert (given.name, given.lease) == ("used", ours.lease)
    assert given.users == {"worker:used": users["worker:used"], "watch": "secret-watch"}
    for id in (used, late, "never-was"):
        with pytest.raises(Denied, match="this code was already used or has expired") as refused:
            invitations.enrol(id)
        assert refused.value.hint == "`treadle fleet invite` makes another"
    invitations.forget_codes()
    assert set(places.load().users) == {*ours.users, "worker:used", f"enrol:{open_}"}
    conf = Path(server.directory(), "server.conf")
    conf.unlink()
    invitations.forget_codes()
    assert not conf.exists(), "nothing is past"
    assert invitations.enrol(open_).name == "open"
    assert invitations.remove("used") and not invitations.remove("used") and not invitations.remove("open-")
    assert set(places.load().users) == {*ours.users, "worker:open", f"enrol:{open_}"}

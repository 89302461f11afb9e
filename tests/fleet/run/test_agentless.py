"""An order without an agent is judged by its check, like any other."""

from pathlib import Path

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import git
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.review import results


async def test_a_check_is_an_order_and_its_setup_can_do_work(bus: Bus, start_node: Start, repository: Path) -> None:
    await start_node()
    base = git(repository, "rev-parse", "HEAD")
    at = {"root": str(repository), "base": base}
    green = spec(verify="grep one a.txt", **at)
    red = spec(verify="echo no two in it; grep two a.txt", **at)
    works = spec(setup="sed -i s/one/two/ a.txt", verify="grep two a.txt", **at)
    broken = spec(setup="echo no such tool >&2; exit 3", verify="true", **at)
    await give(bus, green, red, works, broken)
    ended = [await client.wait(bus, each.id, 90) for each in (green, red, works, broken)]
    assert [each.state for each in ended] == ["done", "failed", "done", "failed"]
    assert ended[0].result["verified"] is True and "commit" not in ended[0].result
    assert ended[1].result["verified"] is False and "no two in it" in ended[1].result["says"]
    assert "was not verified: echo" in ended[1].why and "no such tool" in ended[3].why
    assert ended[2].result["changed"] == ["a.txt"] and (repository / "a.txt").read_text() == "one\n"
    assert b"+two" in await results.diff(bus, works.id)


async def test_a_check_that_is_cancelled_ends_at_once(bus: Bus, start_node: Start, repository: Path) -> None:
    await start_node()
    base = git(repository, "rev-parse", "HEAD")
    (name,) = await give(bus, spec(root=str(repository), base=base, verify="sleep 1000"))
    await until_state(bus, name, "running")
    await client.cancel(bus, name)
    assert (await client.wait(bus, name, 60)).state == "cancelled"

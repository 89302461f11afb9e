"""What an attempt does before and after the agent: it sets up, and verifies."""

from pathlib import Path

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, model, read, says, work, write
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus


async def test_work_that_is_not_verified_is_not_done(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"), verify="false")
    broken = work(repository, edits(tmp_path, "y", "a.txt", "two"), setup="echo no such tool >&2; exit 3")
    await give(bus, order, broken)
    ended = [await client.wait(bus, each.id, 90) for each in (order, broken)]
    assert ended[0].state == "failed" and "not verified" in ended[0].why
    assert ended[1].state == "failed" and "no such tool" in ended[1].why


async def test_a_failed_check_is_sent_back_to_the_agent_within_its_attempts(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    fixes = model(
        tmp_path,
        says("I see.", read("new.txt"), write("new.txt", "good"), when="new.txt says bad"),
        says("", write("new.txt", "bad"), turn=1),
        says("Done.", times="always"),
    )
    check = "grep good new.txt || { echo new.txt says $(cat new.txt); exit 1; }"
    order = work(repository, fixes, verify=check, retry_on=("verify",), backoff=0.1)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and len(ended.attempts) == 2, ended
    first, second = ended.attempts
    assert (first.fault, first.output.strip(), second.resumed) == ("verify", "new.txt says bad", "session")
    assert ended.result["verified"] is True


async def test_a_model_service_that_fails_is_tried_again_where_that_was_asked_for(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    later = {"error": {"status": 503, "message": "overloaded", "retry_after": 9000}, "times": "always"}
    order = work(repository, model(tmp_path, later), retry_on=("provider",), attempts=2, backoff=0.1)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert [attempt.fault for attempt in ended.attempts] == ["provider", "provider"], ended
    assert "overloaded" in ended.why and ended.notes[0].what.startswith("attempt 1 failed and is followed by another")

"""Every end that is not a success has a reason, in a sentence, with what to do."""

from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import bash, model, says, work, write
from treadle.errors import AuthFailed, Cancelled
from treadle.events import ErrorInfo, TurnEnded
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import reasons
from treadle.wire.fleet.orders import OrderLimits


def test_what_stopped_it_comes_first_then_the_agents_error_then_a_failed_check() -> None:
    broken = TurnEnded(outcome="failed", error=ErrorInfo(code="auth_failed", message="401: no such key"))
    assert reasons.of(Cancelled("cancelled by ana"), None, broken, "x") == "cancelled by ana"
    assert reasons.of(None, None, broken, "x").startswith("401: no such key: give this node a valid key")
    assert reasons.of(None, AuthFailed("401"), None, "").startswith("401: give this node")
    assert reasons.of(None, None, TurnEnded(outcome="completed"), "make test failed") == "make test failed"
    for outcome in ("completed", "interrupted", "failed", "limited"):
        assert reasons.of(None, None, TurnEnded(outcome=outcome), "")  # type: ignore[arg-type]
    assert reasons.of(None, None, None, "")


def test_each_reason_has_a_code_found_in_the_same_order() -> None:
    broken = TurnEnded(outcome="failed", error=ErrorInfo(code="auth_failed", message="401: no such key"))
    assert reasons.code_of(Cancelled("by ana"), None, broken, "x") == "cancelled"
    assert reasons.code_of(None, AuthFailed("401"), None, "") == "auth_failed"
    assert reasons.code_of(None, None, broken, "x") == "auth_failed"
    assert reasons.code_of(None, None, TurnEnded(outcome="completed"), "make test failed") == "verify_failed"
    assert reasons.code_of(None, None, TurnEnded(outcome="completed"), "") == "no_result"
    assert reasons.code_of(None, None, None, "") == "silent"


@pytest.mark.parametrize("what", ["key", "turns", "verify"])
async def test_a_failed_order_says_why_and_what_to_do(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path, what: str
) -> None:
    await start_node()
    if what == "key":
        replies = [{"error": {"status": 401, "message": "no such key"}, "times": "always"}]
        order, told, code = work(repository, model(tmp_path, *replies)), "valid key", "auth_failed"
    elif what == "turns":
        loops = [says("", bash(f"echo {number}")) for number in range(9)]
        limits = OrderLimits(turns=2)
        order = work(repository, model(tmp_path, *loops), limits=limits, mode="full-auto")
        told, code = "--max-turns", "max_iterations"
    else:
        replies = [says("", write("new.txt")), says("Done.")]
        order = work(repository, model(tmp_path, *replies), verify="echo no; false")
        told, code = "was not verified", "verify_failed"
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "failed" and told in ended.why, ended.why
    told_again, receipt = await client.why(bus, order.id), await client.get_receipt(bus, order.id)
    assert told_again.why == ended.why and receipt is not None
    assert {ended.reason, ended.attempts[-1].reason, told_again.reason, receipt.reason} == {code}

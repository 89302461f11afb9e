from treadle.drivers.worker.driver import not_enforced
from treadle.session import Decision, Guards, Rules, SessionSpec


def test_what_a_worker_does_not_promise_is_named() -> None:
    spec = SessionSpec.of(
        cwd="/x",
        mode="plan",
        rules=Rules(deny=("Bash",)),
        guards=Guards(judge=lambda access: Decision(verdict="allow")),
    )
    assert len(not_enforced(spec, frozenset())) == 3
    assert not_enforced(spec, frozenset({"approval_mode", "permissions"})) == ["the guard of this session"]
    assert not_enforced(SessionSpec(cwd="/x", mode=None), frozenset()) == []

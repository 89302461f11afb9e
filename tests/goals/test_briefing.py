"""What agents are told, and within which limits they work."""

from pathlib import Path

from treadle.goals import briefing
from treadle.goals.deciding import GoalSeen
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder
from treadle.wire.goal.records import DoneSeen, GoalRecord, GoalStep

ORDERS = (
    PlannedOrder(id="one", task="Do one.", size="s", accept=("true", "test -e one")),
    PlannedOrder(id="two", task="Do two.", size="l", model="big", agent="codex"),
)
BUDGET = GoalBudget(tokens=1000, usd=10, hours=2)
PLAN = GoalPlan(goal="g", done="d", order=ORDERS, verify="make test", roles={"worker": "claude opus"}, budget=BUDGET)


def record(root: Path, **fields: object) -> GoalRecord:
    steps = {"one": GoalStep(state="working", orders=("g-one",)), "two": GoalStep(state="working", orders=("g-two",))}
    return GoalRecord(**{"id": "g", "root": str(root), "branch": "main", "began": 100.0, "steps": steps, **fields})  # type: ignore[arg-type]


def test_a_role_names_an_agent_and_a_model_and_an_order_may_name_others(tmp_path: Path) -> None:
    one, two = (briefing.work(record(tmp_path), PLAN, name, "c0", GoalSeen(now=100.0), {}) for name in ("one", "two"))
    assert (one.agent, one.model, two.agent, two.model) == ("claude", "opus", "codex", "big")
    assert (one.id, one.base, one.project) == ("g-one", "c0", "g")
    assert one.verify == "( true\n) && ( test -e one\n) && ( make test\n)"


def test_the_briefs_of_a_wave_begin_with_the_same_bytes_and_end_with_what_is_new(tmp_path: Path) -> None:
    told = record(tmp_path, comments=("No haste.",))
    one, two = (
        briefing.work(told, PLAN, name, "c0", GoalSeen(now=100.0), {"look": "UTF-8."}) for name in ("one", "two")
    )
    shared, _ = briefing.parts(str(tmp_path), PLAN, ORDERS[0])
    assert one.task.startswith(shared) and two.task.startswith(shared)
    assert "What look found out:\nUTF-8." in one.task and one.task.endswith("A person adds: No haste.\n")
    assert "test -e one" in one.task and "Do two." not in one.task


def test_limits_follow_size_and_what_is_left(tmp_path: Path) -> None:
    small = briefing.limits(record(tmp_path), PLAN, "s", GoalSeen(now=100.0), 9999.0)
    large = briefing.limits(record(tmp_path), PLAN, "l", GoalSeen(now=3700.0, spent_tokens=400, spent_usd=9.5), 9999.0)
    assert (small.tokens, small.seconds) == (300, 7200.0) and small.usd is not None and 2.99 < small.usd <= 3.0
    assert (large.tokens, large.seconds) == (600, 3600.0) and large.usd is not None and large.usd <= 0.5
    without = briefing.limits(record(tmp_path), GoalPlan(goal="g", order=ORDERS), "s", GoalSeen(now=1), 600.0)
    assert (without.tokens, without.seconds) == (None, 600.0), "no agent is waited for forever"


def test_who_cannot_be_held_to_a_policy_looks_without_one() -> None:
    assert briefing.looking("native", "")["policy"].deny_write == ("**",)
    assert briefing.looking("codex", "gpt-5")["policy"].deny_write == ()


def test_reviewers_and_judges_may_not_write(tmp_path: Path) -> None:
    seen = GoalSeen(now=100.0)
    reviewed = record(tmp_path, steps={"one": GoalStep(state="reviewing", orders=("g-one",), review="r1")})
    review = briefing.review(reviewed, PLAN, "one", "c1", "c0", "+x\n" * 50_000, seen)
    judge = briefing.judge(record(tmp_path, done=DoneSeen(tip="c2", ok=False, output="1 failed")), PLAN, seen)
    assert review.policy.deny_write == judge.policy.deny_write == ("**",)
    assert (review.base, judge.base) == ("c1", "c2") and "1 failed" in judge.task and "Do one." in review.task
    assert len(review.task) < briefing.DIFF_MAX + 3000 and "git diff c0 HEAD" in review.task

"""What agents are told, and within which limits they work."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from treadle.coordination.ledger import Blackboard
from treadle.coordination.planning import Planning
from treadle.goals import briefing
from treadle.goals.deciding import GoalSeen
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.goal.plan import GoalBudget, GoalPlan, PlannedOrder
from treadle.wire.goal.records import DoneSeen, GoalRecord, GoalStep
from treadle.wire.goal.verdicts import AddedTest

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


def test_the_order_of_a_step_has_what_its_plan_and_its_record_say(tmp_path: Path) -> None:
    orders = (
        PlannedOrder(id="look", task="Look.", land=False),
        PlannedOrder(id="late", task="t"),
        PlannedOrder(
            id="one",
            task="  First line\nmore",
            after=("look", "late"),
            claims=("a.py",),
            verify="make quick",
            on_red="drop",
            model="small",
        ),
    )
    roles = {"worker": "claude opus"}
    plan = GoalPlan(goal="g", order=orders, verify="make test", setup="make deps", mode="auto-edit", roles=roles)
    steps = {
        "look": GoalStep(state="answered", orders=("o1",)),
        "late": GoalStep(state="landed"),
        "one": GoalStep(state="working", orders=("o2", "o3"), comments="it was red"),
    }
    seen = GoalSeen(now=100.0)
    made = briefing.work(record(tmp_path, steps=steps), plan, "one", "c0", seen, {"look": "x" * 3000})
    assert (made.id, made.title, made.root, made.mode) == ("o3", "First line", str(tmp_path), "auto-edit")
    assert (made.setup, made.on_red, made.after, made.claims) == ("make deps", "drop", ("o1",), ("a.py",))
    assert (made.agent, made.model, made.verify, made.by) == ("claude", "small", "( make quick\n)", "goal g")
    assert made.limits.seconds == briefing.WORK_SECONDS and made.created > 1e9
    assert "An earlier try (o2) did not land: it was red" in made.task and "It is accepted" not in made.task
    assert f"What look found out:\n{'x' * briefing.FOUND_MAX}\n" in made.task
    plain = GoalPlan(goal="g", order=(PlannedOrder(id="one", task="y" * 150, title="Short"), orders[1]))
    made = briefing.work(record(tmp_path), plain, "one", "c0", seen, {})
    assert (made.agent, made.model, made.mode, made.verify, made.title) == ("native", None, None, "", "Short")
    assert "earlier try" not in made.task and made.task.endswith("y\n")
    long = replace(plain, order=(replace(plain.order[0], title=""),))
    assert briefing.work(record(tmp_path), long, "one", "c0", seen, {}).title == "y" * 100


def test_a_brief_has_the_facts_of_a_repository_that_keeps_them(tmp_path: Path) -> None:
    (tmp_path / ".planning").mkdir()
    Blackboard(Planning(project=str(tmp_path))).set("port", "5173")
    made = briefing.work(record(tmp_path), PLAN, "one", "c0", GoalSeen(now=100.0), {})
    assert "Known facts of this repository:\n  port = 5173\n" in made.task


def test_the_briefs_of_a_wave_begin_with_the_same_bytes_and_end_with_what_is_new(tmp_path: Path) -> None:
    told = record(tmp_path, comments=("No haste.",))
    one, two = (
        briefing.work(told, PLAN, name, "c0", GoalSeen(now=100.0), {"look": "UTF-8."}) for name in ("one", "two")
    )
    shared, _ = briefing.parts(str(tmp_path), PLAN, ORDERS[0])
    assert one.task.startswith(shared) and two.task.startswith(shared)
    assert "What look found out:\nUTF-8." in one.task and one.task.endswith("A person adds: No haste.\n")
    assert "test -e one" in one.task and "Do two." not in one.task


def test_limits_follow_size_and_the_time_that_is_left(tmp_path: Path) -> None:
    small = briefing.limits(record(tmp_path), PLAN, "s", GoalSeen(now=100.0), 9999.0)
    large = briefing.limits(record(tmp_path), PLAN, "l", GoalSeen(now=3700.0), 9999.0)
    assert (small.tokens, small.usd, small.seconds) == (300, 3.0, 7200.0)
    assert (large.tokens, large.seconds) == (1200, 3600.0)
    assert briefing.limits(record(tmp_path), PLAN, "s", GoalSeen(now=1e6), 9999.0).seconds == 60.0
    raised = briefing.limits(record(tmp_path, raised=1, rested=900.0), PLAN, "l", GoalSeen(now=3700.0), 99999.0)
    assert (raised.tokens, raised.seconds) == (1200, 4 * 3600 - 2700.0)
    assert briefing.limits(record(tmp_path), PLAN, "s", GoalSeen(now=100.0), 600.0).seconds == 600.0
    hours = replace(PLAN, budget=GoalBudget(hours=1))
    assert briefing.limits(record(tmp_path), hours, "s", GoalSeen(now=100.0), 9999.0) == OrderLimits(seconds=3600.0)
    without = briefing.limits(record(tmp_path), GoalPlan(goal="g", order=ORDERS), "s", GoalSeen(now=1), 600.0)
    assert (without.tokens, without.seconds) == (None, 600.0), "no agent is waited for forever"


def test_who_cannot_be_held_to_a_policy_looks_without_one() -> None:
    assert briefing.looking("native", "", ())["policy"].deny_write == ("**",)
    other = briefing.looking("codex", "gpt-5", ())
    assert other["policy"].deny_write == () and (other["agent"], other["model"]) == ("codex", "gpt-5")
    assert briefing.looking("native", "", ("codex",))["policy"].deny_write == (), "its fallback could not be held to it"
    assert briefing.looking("native", "", ())["model"] is None and other["mode"] == "full-auto"
    assert other["no_verify"], "a reviewer who finds the tests red does not claim that they pass"


def test_reviewers_and_judges_may_not_write(tmp_path: Path) -> None:
    seen = GoalSeen(now=100.0)
    reviewed = record(tmp_path, steps={"one": GoalStep(state="reviewing", orders=("g-one",), review="r1")})
    review = briefing.review(reviewed, PLAN, "one", "c1", "c0", "+x\n" * 50_000, seen)
    judge = briefing.judge(record(tmp_path, done=DoneSeen(tip="c2", ok=False, output="1 failed")), PLAN, seen)
    assert review.policy.deny_write == judge.policy.deny_write == ("**",)
    assert (review.base, judge.base) == ("c1", "c2") and "1 failed" in judge.task and "Do one." in review.task
    assert len(review.task) < briefing.DIFF_MAX + 3000 and "git diff c0 HEAD" in review.task
    assert (review.id, review.title, review.answer) == ("r1", "review of one", "review")
    assert (judge.id, judge.title, judge.answer) == ("", "is the goal met?", "judgement")
    assert (review.project, review.root, review.by) == (judge.project, judge.root, judge.by)
    assert (review.project, review.root, review.by) == ("g", str(tmp_path), "goal g")
    assert review.limits.seconds == judge.limits.seconds == briefing.LOOK_SECONDS
    assert "  test -e one\n" in review.task and review.task.count(briefing.ANSWER) == 1
    assert (review.agent, review.model, judge.agent) == ("native", None, "native")


def test_who_continues_is_told_all_that_was_said_and_is_checked_by_the_reviewer_s_tests_once(tmp_path: Path) -> None:
    tests = (AddedTest(path="tests/test_x.py", text="assert 1", command="pytest x"), AddedTest(path="y", text="z"))
    step = GoalStep(state="red", comments="Say more.", tests=tests)
    told = briefing.comments(step, ["And this.", ""])
    assert told.startswith("Say more.\n\nAnd this.\n\nYour reviewer adds this test")
    assert "Write it to tests/test_x.py as it is:\n\nassert 1" in told and "Write it to y as it is:\n\nz" in told
    assert briefing.comments(GoalStep(), []) == "try again"
    spec = briefing.work(record(tmp_path), PLAN, "one", "c0", GoalSeen(now=100.0), {})
    checks = briefing.verified(spec, step)
    assert checks == f"{spec.verify} && ( pytest x\n)"
    assert briefing.verified(replace(spec, verify=checks), step) == checks
    assert briefing.verified(replace(spec, verify=""), step) == "( pytest x\n)"


def test_roles_without_an_agent_are_the_settings_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert briefing.default_agent() == "native"
    monkeypatch.setenv("TREADLE_AGENT", "codex")
    assert briefing.default_agent() == "codex"


def test_forty_facts_are_not_too_many(tmp_path: Path) -> None:
    (tmp_path / ".planning").mkdir()
    for number in range(briefing.FACTS_MAX):
        Blackboard(Planning(project=str(tmp_path))).set(f"k{number}", "v" * 500)
    lines = briefing.facts(str(tmp_path)).splitlines()
    assert len(lines) == briefing.FACTS_MAX + 1 and "more" not in lines[-1] and max(map(len, lines)) < 220
    Blackboard(Planning(project=str(tmp_path))).set("another", "v")
    assert "1 more, by `heimdall-blackboard list`" in briefing.facts(str(tmp_path))


@pytest.mark.parametrize(("length", "asked"), [(briefing.DIFF_MAX, True), (briefing.DIFF_MAX + 1, False)])
def test_a_reviewer_is_asked_about_changed_checks_only_if_they_are_shown_whole(
    tmp_path: Path, length: int, asked: bool
) -> None:
    made = briefing.review(
        record(tmp_path), PLAN, "one", "c1", "c0", "", GoalSeen(now=100.0), ["tests/x"], "+" * length
    )
    assert ('"judge": ["FILE"]' in made.task) == asked == ("+" * length in made.task)

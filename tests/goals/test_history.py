"""A goal's record is what its history says, whatever happens."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.goals.running import replayed
from tests.goals.worlds import ORDERS, World, plan
from treadle.goals import deciding
from treadle.goals.deciding import OrderSeen, moves
from treadle.wire.fleet.records import Used
from treadle.wire.goal import records
from treadle.wire.goal.plan import GoalBudget, PlannedOrder
from treadle.wire.goal.records import (
    JudgePlaced,
    PlanChanged,
    ReviewGiven,
)
from treadle.wire.goal.verdicts import AddedTest


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1_000_000), st.booleans(), st.booleans(), st.sampled_from([None, 4, 12]))
def test_every_goal_ends_or_asks_whatever_happens_and_its_history_gives_its_record(
    seed: int, reviewed: bool, gated: bool, most: int | None
) -> None:
    gates = (*(("agent:reviewer",) if reviewed else ()), *(("plan", "wave", "land") if gated else ()))
    budget = GoalBudget(orders=most) if most else None
    world = World(plan(gates=gates or ("none",), budget=budget), seed)
    for _ in range(3000):
        if world.record.ended and not world.turn():
            break
        if not world.turn() and world.record.state == "paused":
            break
    record = world.record
    assert record.ended or record.state == "paused", record
    assert replayed("g1", world.events) == record
    if record.ended:
        assert all(world.orders[name].ended for name in world.seen().orders if name in world.orders)
        assert record.why, "every ending has a reason"


def test_where_there_is_more_to_do_after_all_what_was_asked_about_the_end_is_taken_back_and_judged_anew() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),)), 1, kind=True)
    while not world.record.judge:
        assert world.turn()
    judge = world.record.judge
    world.orders[judge] = OrderSeen()
    more = PlannedOrder(id="more", task="t", land=False)
    world.plan = replace(world.plan, order=(*world.plan.order, more))
    world.happen(PlanChanged(at=9.0, plan=2, steps=("model", "more")))
    assert next(moves(world.record, world.plan, world.seen())) == deciding.CancelOpen(
        orders=(judge,), why="there is more to do, so it is asked later"
    )
    world._do(next(moves(world.record, world.plan, world.seen())))
    while not world.record.ended:
        assert world.turn()
    assert world.record.state == "met" and world.orders[judge].cancelled
    assert [event.order == judge for event in world.events if isinstance(event, JudgePlaced)] == [True, False]


def test_what_a_person_approves_in_place_of_a_reviewer_without_a_verdict_lands() -> None:
    world = World(plan(order=(replace(ORDERS[0], accept=()),), gates=("agent:reviewer",)), 1, kind=True)
    for _ in range(deciding.REVIEWS):
        while world.record.steps["model"].state != "reviewing" or not world.record.steps["model"].review:
            world.turn()
        world.happen(ReviewGiven(at=9.0, step="model", verdict="none", comments="it did not answer"))
    while not world.record.questions:
        assert world.turn()
    assert list(world.record.questions) == ["review:model:0"]
    while not world.record.ended:
        assert world.turn()
    assert (world.record.state, world.record.steps["model"].state) == ("met", "landed")


# One happening at a time...

TOOK = Used(input_tokens=5)
BEGUN = records.GoalBegun(at=1.0, by="ana", goal="g", root="/r", branch="next", steps=("a", "b"))


def after(*events: records.AnyGoalEvent) -> records.GoalRecord:
    return replayed("g1", [BEGUN, *events])


def step_after(*events: records.AnyGoalEvent) -> records.GoalStep:
    return after(*events).steps["a"]


PLACED = records.StepPlaced(at=2.0, step="a", order="o1")
ENDED = records.StepEnded(at=3.0, step="a", ok=True, used=TOOK)
BOARDED = records.StepBoarded(at=4.0, step="a")
REVIEWED = records.ReviewPlaced(at=4.0, step="a", order="r1")


def test_a_goal_begins_with_all_its_steps_waiting_and_what_planning_took() -> None:
    begun = after()
    assert (begun.goal, begun.root, begun.branch, begun.by, begun.plan) == ("g", "/r", "next", "ana", 1)
    assert (begun.began, begun.events, begun.used) == (1.0, 1, {}) and set(begun.steps) == {"a", "b"}
    assert replayed("g1", [replace(BEGUN, planner=TOOK)]).used == {"planner": TOOK}


def test_a_step_goes_its_way_and_who_worked_on_it_is_counted_by_role() -> None:
    placed = after(PLACED)
    assert (placed.steps["a"].state, placed.steps["a"].orders, placed.placed) == ("working", ("o1",), 1)
    again = after(PLACED, replace(PLACED, order="o2", fresh=False, counts=False))
    assert (again.steps["a"].orders, again.steps["a"].fresh, again.placed) == (("o1", "o2"), False, 1)
    assert (
        placed.steps["a"].fresh and step_after(records.AcceptanceTried(at=1, step="a", passes=True)).accept == "passes"
    )
    assert step_after(records.AcceptanceTried(at=1, step="a", passes=False)).accept == "fails"
    done = after(PLACED, ENDED)
    assert (done.steps["a"].state, done.steps["a"].used, done.used) == ("done", TOOK, {"worker": TOOK})
    failed = step_after(PLACED, replace(ENDED, ok=False, unable=True, why="it broke"))
    assert (failed.state, failed.reds, failed.why, failed.comments) == ("red", 1, "it broke", "it broke")
    assert failed.unable and failed.used == TOOK and not done.steps["a"].unable
    cleared = step_after(PLACED, replace(ENDED, ok=False, why="it broke"), replace(PLACED, order="o2"), ENDED)
    assert (cleared.why, cleared.comments, cleared.reds) == ("", "it broke", 1)
    size = records.BriefSize(shared=1, own=2, restated=3)
    assert step_after(PLACED, records.StepBriefed(at=2, step="a", brief=size)).brief == size
    landed = after(PLACED, ENDED, BOARDED, records.StepLanded(at=5, step="a", commit="c", helped={"reconciler": TOOK}))
    assert (landed.steps["a"].state, landed.steps["a"].commit, landed.landed) == ("landed", "c", 1)
    assert landed.used["reconciler"] == TOOK and landed.steps["a"].used.tokens == 10
    answered = after(PLACED, ENDED, records.StepLanded(at=5, step="a"))
    assert (answered.steps["a"].state, answered.landed) == ("answered", 0)
    out = after(PLACED, ENDED, BOARDED, records.StepLeftOut(at=5, step="a", why="red", helped={"reconciler": TOOK}))
    assert (out.steps["a"].state, out.steps["a"].comments, out.used["reconciler"]) == ("red", "red", TOOK)


def test_a_review_approves_objects_with_tests_or_says_nothing() -> None:
    placed = after(PLACED, ENDED, REVIEWED)
    assert (placed.steps["a"].state, placed.steps["a"].review, placed.placed) == ("reviewing", "r1", 2)
    one, two, new = (AddedTest(path=path, text=text) for path, text in (("x", "1"), ("y", "2"), ("x", "3")))
    given = records.ReviewGiven(at=5.0, step="a", verdict="object", comments="Say more.", tests=(one, two), used=TOOK)
    before = (PLACED, ENDED, REVIEWED)
    objected = after(*before, given)
    step = objected.steps["a"]
    assert (step.state, step.review, step.reviews, step.reds, step.comments) == ("red", "", 1, 1, "Say more.")
    assert step.tests == (one, two) and objected.used["reviewer"] == TOOK
    twice = step_after(*before, given, *before, replace(given, tests=(new,)))
    assert twice.tests == (two, new) and twice.reviews == 2, "a test that is changed replaces its earlier form"
    approved = step_after(*before, replace(given, verdict="approve", tests=()))
    assert (approved.state, approved.review, approved.reds, approved.tests) == ("approved", "", 0, ())
    none = step_after(*before, replace(given, verdict="none"))
    assert (none.state, none.review, none.reviews, none.tests) == ("reviewing", "", 1, ())
    person = step_after(PLACED, ENDED, records.StepObjected(at=5, step="a", why="ana said no"))
    assert (person.state, person.why, person.reds) == ("red", "ana said no", 1)


def test_what_was_dropped_starts_afresh_when_it_is_taken_up_again() -> None:
    dropped = (PLACED, replace(ENDED, ok=False, why="it broke"), records.StepDropped(at=5, step="a", why="no"))
    assert (step_after(*dropped).state, step_after(*dropped).why) == ("dropped", "no")
    judged = (
        records.JudgePlaced(at=6, order="j1"),
        records.QuestionPut(at=6, about="round:1", order="q", title="", text=""),
    )
    tried = records.AcceptanceTried(at=1, step="a", passes=True)
    record = after(tried, *dropped, *judged, records.StepAgain(at=7, step="a"))
    step = record.steps["a"]
    assert step == records.GoalStep(orders=("o1",), used=TOOK)
    assert (record.judge, record.judged, record.done) == ("", None, None)
    assert record.questions == {} and record.void == ("j1", "q")


def test_questions_are_put_answered_raised_and_paused_on_by_silence() -> None:
    put = records.QuestionPut(at=5, about="budget:0", order="q1", title="More?", text="t")
    other = replace(put, about="wave:2", order="q2")
    assert after(put, other).questions == {"budget:0": "q1", "wave:2": "q2"} and after(put, other).asked == 2
    yes = records.QuestionAnswered(at=6, by="ana", about="budget:0", allow=True, text="go")
    allowed = after(put, other, yes)
    assert allowed.questions == {"wave:2": "q2"} and allowed.raised == 1
    assert allowed.answers == {"budget:0": records.GoalAnswer(allow=True, text="go", by="ana")}
    assert after(put, other, replace(yes, allow=False)).raised == 0
    assert after(put, other, replace(yes, about="wave:2")).raised == 0
    late = after(put, other, replace(yes, by="deadline"))
    assert (late.state, late.paused, late.answers, late.raised) == ("paused", 6, {}, 0)
    assert late.why == "no one answered about budget:0; resume asks again" and late.questions == {"wave:2": "q2"}
    paused = after(put, records.GoalPaused(at=5.5, why="x"), replace(yes, by="deadline"))
    assert paused.paused == 5.5, "it was paused before"


def test_time_in_which_it_is_paused_is_rest() -> None:
    paused = after(records.GoalPaused(at=10.0, why="lunch"))
    assert (paused.state, paused.why, paused.paused) == ("paused", "lunch", 10.0)
    resumed = after(records.GoalPaused(at=10.0, why="lunch"), records.GoalResumed(at=25.0))
    assert (resumed.state, resumed.why, resumed.paused, resumed.rested) == ("running", "", 0.0, 15.0)
    assert after(records.GoalResumed(at=25.0)).rested == 0.0
    twice = after(
        *(records.GoalPaused(at=10.0), records.GoalResumed(at=25.0)),
        *(records.GoalPaused(at=30.0), records.GoalResumed(at=31.0)),
    )
    assert twice.rested == 16.0


def test_rounds_judgements_and_ends_are_kept() -> None:
    checked = records.DoneChecked(at=5, seen=records.DoneSeen(tip="c", ok=True))
    judge, judged = records.JudgePlaced(at=6, order="j1"), records.GoalJudged(at=7, met=False, why="no", used=TOOK)
    assert after(checked).done == checked.seen and after(judge).judge == "j1" and after(judge).placed == 1
    given = after(checked, judge, judged)
    assert (given.judge, given.judged, given.used) == ("", judged, {"judge": TOOK})
    assert after(judged, judge).judged is None
    more = after(checked, judged, records.RoundBegun(at=8))
    assert (more.round, more.barren, more.done, more.judged, more.landed) == (2, 1, None, None, 0)
    landed = (PLACED, ENDED, BOARDED, records.StepLanded(at=5, step="a", commit="c"))
    assert after(records.RoundBegun(at=8), *landed, records.RoundBegun(at=9)).barren == 0
    for met, state in ((True, "met"), (False, "stopped")):
        over = after(records.GoalOver(at=9.0, met=met, why="so"))
        assert (over.state, over.why, over.ended) == (state, "so", 9.0)
    said = after(*(records.GoalMessage(at=1, text=str(number)) for number in range(25)))
    assert said.comments == tuple(str(number) for number in range(5, 25)) and said.events == 26


def test_a_changed_plan_keeps_known_steps_and_takes_back_what_was_asked_about_it_or_those_that_are_gone() -> None:
    put = records.QuestionPut(at=5, about="plan", order="q1", title="", text="")
    asked = [put, *(replace(put, about=f"order:{name}", order=name) for name in ("a", "b"))]
    end = replace(put, about="round:1", order="q4")
    answered = records.QuestionAnswered(at=6, by="ana", about="round:1", allow=True)
    changed = records.PlanChanged(at=7, plan=2, steps=("a", "c"))
    record = after(PLACED, *asked, end, changed)
    assert record.plan == 2 and record.steps == {"a": step_after(PLACED), "c": records.GoalStep()}
    assert record.questions == {"order:a": "a"} and set(record.void) == {"q1", "b", "q4"}
    assert after(end, answered, changed).answers == {}
    kept = replace(answered, about="wave:1")
    assert set(after(end, kept, changed).answers) == {"wave:1"}

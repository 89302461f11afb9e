"""The report says what was asked, what landed, for how much, and what was dropped and why."""

import time

from msgspec.structs import replace

from treadle.goals.commands import markdown, page
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import (
    BriefSize,
    DoneSeen,
    GoalRecord,
    GoalStep,
    QuestionAnswered,
    QuestionPut,
)

PLAN = GoalPlan(
    goal="a | b", done="make test", order=(PlannedOrder(id="one", task="Do <one>."), PlannedOrder(id="two", task="t"))
)
RECORD = GoalRecord(
    id="g1",
    goal="a | b",
    state="met",
    why="it is",
    by="ana",
    began=100.0,
    ended=700.0,
    rested=60.0,
    branch="main",
    done=DoneSeen(tip="c", ok=True),
    steps={
        "one": GoalStep(
            state="landed",
            orders=("g1-one",),
            commit="abcdef0123456",
            used=Used(input_tokens=90, output_tokens=10),
            brief=BriefSize(shared=100, own=20, restated=320),
        ),
        "two": GoalStep(state="dropped", why="no one wanted it", brief=BriefSize(shared=100, own=30, restated=330)),
    },
    used={"worker": Used(input_tokens=90, output_tokens=10, usd=0.5), "judge": Used(input_tokens=5)},
)
EVENTS = (
    QuestionPut(at=1.0, about="plan", order="q", title="Carry it out?", text="t"),
    QuestionAnswered(at=2.0, by="ana", about="plan", allow=True, text="go"),
)


def test_it_has_orders_tokens_by_role_what_briefs_saved_and_what_was_asked() -> None:
    text = markdown(RECORD, PLAN, EVENTS, {"g1-one": "codex"}, {"g1-one": "f" * 64})
    assert "**met**: it is" in text and "9.0 minutes of work" in text and "`make test`: passes" in text
    assert "| 1 | one | Do <one>. | landed | codex | 1 | 0 | abcdef0123 | 100 | ffffffffffff |" in text
    assert "- two: no one wanted it" in text and "| worker | 90 | 0 | 10 | 0.5000 |" in text
    assert "| judge | 5 | 0 | 0 | unknown |" in text and "- Carry it out?: yes, by ana (go)" in text
    assert "2 briefs took 250 tokens" in text and "would have taken 650" in text
    assert "160 against 380" in text, "100 + 10 + 50 against 300 + 30 + 50"


def test_the_page_has_the_same_and_runs_nothing() -> None:
    made = page(markdown(RECORD, PLAN, EVENTS, {}, {}), "a <b>")
    assert "<h1>a | b</h1>" in made and "Do &lt;one&gt;." in made and "<title>a &lt;b&gt;</title>" in made
    assert "<script" not in made and made.count("<table>") == made.count("</table>") == 2


def test_headings_tables_and_lists_are_closed_and_nothing_in_them_is_taken_for_a_tag() -> None:
    text = "# A <b>\n| x | y |\n|---|---|\n| a\\|b | `c` |\n- **one**\n- two\n\n## Next\nwords"
    body = page(text, "t <i>").partition("</style>\n")[2]
    assert body.splitlines() == [
        "<h1>A &lt;b&gt;</h1>",
        "<table>",
        "<tr><td>x</td><td>y</td></tr>",
        "<tr><td>a|b</td><td><code>c</code></td></tr>",
        "</table><ul>",
        "<li><b>one</b></li>",
        "<li>two</li>",
        "</ul>",
        "<h2>Next</h2>",
        "<p>words</p>",
        "</html>",
    ]
    assert page("- one", "t").endswith("<li>one</li>\n</ul>\n</html>\n") and "t &lt;i&gt;" in page("", "t <i>")


def test_a_goal_that_runs_says_so_and_what_is_not_there_is_left_out() -> None:
    began = time.time() - 600
    record = GoalRecord(
        id="g1", goal="g", by="ana", began=began, round=2, branch="next", steps={"one": GoalStep(), "two": GoalStep()}
    )
    plan = GoalPlan(goal="g", done="make test", verify="make quick", order=PLAN.order)
    text = markdown(record, plan, (), {}, {})
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(began))
    assert text.splitlines()[:8] == [
        "# g",
        "",
        "**running**",
        "",
        f"- goal `g1`, begun by ana on {day}",
        "- 10.0 minutes of work, 2 rounds of judging",
        "- proved by `make test`",
        "- landed on `next`, each change checked by `make quick`",
    ]
    assert "| 1 | two | t | waiting | - | 0 | 0 | - | 0 | - |" in text and "| together | 0 | 0 | 0 | unknown |" in text
    for absent in ("## Dropped", "## Asked", "briefs took"):
        assert absent not in text


def test_one_round_one_brief_a_refusal_and_a_total_are_told_as_such() -> None:
    step = GoalStep(state="landed", orders=("a", "b"), reviews=3, brief=BriefSize(shared=100, own=20, restated=320))
    used = {
        "worker": Used(input_tokens=1, cache_write_tokens=2, cache_read_tokens=3, output_tokens=4, usd=0.25),
        "judge": Used(input_tokens=10, usd=0.5),
    }
    record = replace(RECORD, steps={"one": step, "two": GoalStep()}, used=used, done=DoneSeen(tip="c", ok=False))
    events = (*EVENTS, QuestionAnswered(at=3.0, by="ben", about="land:one:0", allow=False))
    text = markdown(record, replace(PLAN, order=(replace(PLAN.order[0], title="Title"), PLAN.order[1])), events, {}, {})
    assert "9.0 minutes of work, 1 round of judging" in text and "`make test`: fails" in text
    assert "each change checked by `the check of the branch`" in text
    assert "| one | Title | landed | - | 2 | 3 | - | 0 | - |" in text
    assert "| worker | 3 | 3 | 4 | 0.2500 |" in text and "| together | 13 | 3 | 4 | 0.7500 |" in text
    assert "1 brief took 120 tokens" in text and "120 against 320" in text
    assert "- land:one:0: no, by ben\n" in text and "- two:" not in text

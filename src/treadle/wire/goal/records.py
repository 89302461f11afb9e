"""What is stored of a goal that is carried out.

    goal.ID          where it stands, changed only by compare-and-set
    goallog.ID.N     what happened, one after the other; each is written together with the record that it led to
    goalplan.ID.N    the plan, in every version that it had
    goalrequest.N       what a person wants of one, who may not write it: removed when it is done

`goals/store.py` makes the record from the happenings, so reading them again gives the same record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from treadle.wire.fleet.records import Delay, Used
from treadle.wire.goal.verdicts import AddedTest

GOAL_FORMAT = 1
GoalState: TypeAlias = Literal["running", "paused", "met", "stopped"]
StepState: TypeAlias = Literal[
    "waiting", "working", "done", "reviewing", "approved", "landing", "landed", "answered", "red", "dropped"
]
StepMove: TypeAlias = Literal[
    "place", "finish", "fail", "review", "approve", "object", "board", "land", "leave_out", "answer", "drop", "again"
]
OVER: tuple[StepState, ...] = ("landed", "answered", "dropped")
MET: tuple[StepState, ...] = ("landed", "answered")
"""What others may build on."""

STEP: Mapping[tuple[StepState, StepMove], StepState] = {
    ("waiting", "place"): "working",
    ("working", "place"): "working",  # its order was tried again by a person
    ("working", "finish"): "done",
    ("working", "fail"): "red",
    ("done", "review"): "reviewing",
    ("reviewing", "review"): "reviewing",  # the answer was no verdict
    ("reviewing", "approve"): "approved",
    ("reviewing", "object"): "red",
    ("done", "object"): "red",  # a person did not want it to land
    ("approved", "object"): "red",
    ("done", "board"): "landing",
    ("approved", "board"): "landing",
    ("reviewing", "board"): "landing",  # a person approved, because the reviewer gave no verdict
    ("done", "answer"): "answered",  # nothing to land
    ("approved", "answer"): "answered",
    ("landing", "land"): "landed",
    ("landing", "leave_out"): "red",
    ("landing", "place"): "working",  # a person had it done again
    ("landing", "drop"): "dropped",  # the train gave it up
    ("red", "place"): "working",
    ("waiting", "drop"): "dropped",
    ("working", "drop"): "dropped",
    ("done", "drop"): "dropped",
    ("red", "drop"): "dropped",
    ("dropped", "again"): "waiting",
    ("red", "again"): "waiting",
}
"""What is not in this table cannot happen to an order of a plan.

Moves are written down by compare-and-set before they are carried out, so a foreman that is killed in between, or a
second one, finds the move and carries it out again; the acts themselves may be repeated. What has landed or was
answered stays so, because others build on it. Red is not an end: it is worked on again, and dropped when the plan or a
person says so; only a person takes up again what was dropped.
"""


class GoalStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order of the plan, as far as it has come."""

    state: StepState = "waiting"
    orders: tuple[str, ...] = ()
    """The fleet's orders that worked on it, the latest last."""
    fresh: bool = True
    """Whether its latest order starts anew, and does not continue the one before it."""
    review: str = ""
    reviews: int = 0
    reds: int = 0
    """How often it failed, was objected to or was left out."""
    unable: bool = False
    """Whether its agent could not even begin, as when its program is not installed."""
    comments: str = ""
    """What the agent that works on it next is told about that."""
    tests: tuple[AddedTest, ...] = ()
    """What its reviewers added to its acceptance."""
    judge: tuple[str, ...] = ()
    """Files by which it is checked, and whose change its reviewer found right. No person is asked about those."""
    accept: Literal["", "fails", "passes"] = ""
    """What its acceptance said before the work."""
    asks: str = ""
    """The order by which the train asks a person about its change."""
    commit: str = ""
    why: str = ""
    used: Used = Used()
    brief: BriefSize | None = None

    @property
    def order(self) -> str:
        return self.orders[-1] if self.orders else ""


class BriefSize(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of the brief that an order was given, and of the same by restating the plan."""

    shared: int
    own: int
    restated: int


class GoalRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = GOAL_FORMAT
    id: str
    goal: str = ""
    root: str = ""
    branch: str = ""
    state: GoalState = "running"
    why: str = ""
    by: str = ""
    began: float = 0.0
    ended: float = 0.0
    paused: float = 0.0
    """Since when it is paused."""
    delay: Delay | None = None
    """Something failed that passes: it goes on by itself."""
    rested: float = 0.0
    """For how many seconds it was paused before."""
    events: int = 0
    """How many happenings led here."""
    plan: int = 0
    """The version of the plan that holds."""
    steps: dict[str, GoalStep] = {}
    questions: dict[str, str] = {}
    """What is asked now -> the order that asks it."""
    answers: dict[str, GoalAnswer] = {}
    void: tuple[str, ...] = ()
    """Orders that asked or judged what is no longer to be asked or judged: they are called off."""
    asked: int = 0
    placed: int = 0
    """How many orders were given to agents."""
    raised: int = 0
    """How often people allowed the budget again."""
    used: dict[str, Used] = {}
    """By role."""
    round: int = 1
    """How often it was judged, and once more."""
    barren: int = 0
    """How many rounds in a row have landed nothing."""
    landed: int = 0
    """How many changes have landed in this round."""
    tried: bool = False
    """Whether the plan's commands were tried on the branch as it was before anything was done."""
    wrong: str = ""
    """What they said that keeps anything from landing."""
    done: DoneSeen | None = None
    measured: str = ""
    """What `done` said at the end of the round before."""
    judge: str = ""
    judged: GoalJudged | None = None
    comments: tuple[str, ...] = msgspec.field(default=(), name="told")
    """What people said to all of it."""

    @property
    def is_barren(self) -> bool:
        """Whether this round has changed nothing of what is measured."""
        return not self.landed or self.done is not None and self.done.measured == self.measured

    @property
    def asked_now(self) -> dict[str, str]:
        """What people are asked: by the goal itself, and by the train about the changes of its orders."""
        return self.questions | {f"train:{name}": step.asks for name, step in self.steps.items() if step.asks}

    @property
    def shown_state(self) -> str:
        """As people see it: one that waits for their answer does not run."""
        return "asking" if self.state == "running" and self.asked_now else self.state


class GoalAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    allow: bool
    text: str = ""
    by: str = ""


GoalRequestKind: TypeAlias = Literal["begin", "pause", "resume", "stop", "retry", "say", "change"]


class GoalRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`goalrequest.N`."""

    format: int = GOAL_FORMAT
    goal: str
    do: GoalRequestKind
    by: str
    at: float
    text: str = ""
    step: str = ""
    now: bool = False
    root: str = ""
    """Of a plan to begin: the repository."""
    no_budget: bool = False
    taken: float = 0.0
    """When a foreman began to do it."""


class DoneSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the command that proves the goal said, on this commit of the branch."""

    tip: str
    ok: bool
    output: str = ""

    @property
    def measured(self) -> str:
        """The verdict, and what was printed but for its numbers: times and ports differ from run to run."""
        return f"{self.ok} {re.sub(r'[0-9]+', '0', self.output)}"


# What happens...


class GoalEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    at: float
    by: str = ""


class GoalBegun(GoalEvent, tag="begun", frozen=True, kw_only=True):
    goal: str
    root: str
    branch: str
    steps: tuple[str, ...]
    planner: Used = Used()
    """What planning it took."""


class PlanChanged(GoalEvent, tag="plan", frozen=True, kw_only=True):
    plan: int
    steps: tuple[str, ...]
    why: str = ""


class PlanTried(GoalEvent, tag="plan_tried", frozen=True, kw_only=True):
    wrong: str = ""


class QuestionPut(GoalEvent, tag="asked", frozen=True, kw_only=True):
    about: str
    """What is asked: `plan`, `wave:2`, `red:writer:3`..."""
    order: str
    title: str
    text: str


class QuestionAnswered(GoalEvent, tag="answered", frozen=True, kw_only=True):
    about: str
    allow: bool
    text: str = ""


class AcceptanceTried(GoalEvent, tag="tried", frozen=True, kw_only=True):
    step: str
    passes: bool


class StepPlaced(GoalEvent, tag="placed", frozen=True, kw_only=True):
    step: str
    order: str
    fresh: bool = True
    counts: bool = True
    """False where the fleet placed it by itself."""


class StepBriefed(GoalEvent, tag="briefed", frozen=True, kw_only=True):
    step: str
    brief: BriefSize


class StepEnded(GoalEvent, tag="ended", frozen=True, kw_only=True):
    step: str
    ok: bool
    unable: bool = False
    why: str = ""
    used: Used = Used()
    commit: str = ""
    """What it has left, if it changed anything."""


class ReviewPlaced(GoalEvent, tag="reviewing", frozen=True, kw_only=True):
    step: str
    order: str


class ReviewGiven(GoalEvent, tag="reviewed", frozen=True, kw_only=True):
    step: str
    verdict: Literal["approve", "object", "none"]
    comments: str = ""
    tests: tuple[AddedTest, ...] = ()
    judge: tuple[str, ...] = ()
    used: Used = Used()


class StepObjected(GoalEvent, tag="objected", frozen=True, kw_only=True):
    step: str
    why: str


class StepBoarded(GoalEvent, tag="boarded", frozen=True, kw_only=True):
    step: str


class StepLanded(GoalEvent, tag="landed", frozen=True, kw_only=True):
    step: str
    commit: str = ""
    """Empty when there was nothing to land."""
    helped: dict[str, Used] = {}
    """What those have used, by role, who helped it land after it was sent back."""


class StepAsked(GoalEvent, tag="step_asked", frozen=True, kw_only=True):
    step: str
    order: str
    """By which the train asks; empty once it does no longer."""


class StepLeftOut(GoalEvent, tag="left_out", frozen=True, kw_only=True):
    step: str
    why: str
    helped: dict[str, Used] = {}
    """What those have used, by role, who tried to help."""


class StepDropped(GoalEvent, tag="dropped", frozen=True, kw_only=True):
    step: str
    why: str


class StepAgain(GoalEvent, tag="again", frozen=True, kw_only=True):
    step: str


class DoneChecked(GoalEvent, tag="checked", frozen=True, kw_only=True):
    seen: DoneSeen


class JudgePlaced(GoalEvent, tag="judging", frozen=True, kw_only=True):
    order: str


class GoalJudged(GoalEvent, tag="judged", frozen=True, kw_only=True):
    met: bool | None
    """None when the answer was no verdict."""
    why: str = ""
    more: int = 0
    """How many new orders it wants."""
    used: Used = Used()


class RoundBegun(GoalEvent, tag="round", frozen=True, kw_only=True):
    pass


class GoalPaused(GoalEvent, tag="paused", frozen=True, kw_only=True):
    why: str = ""


class GoalResumed(GoalEvent, tag="resumed", frozen=True, kw_only=True):
    pass


class GoalDelayed(GoalEvent, tag="delayed", frozen=True, kw_only=True):
    delay: Delay | None = None
    """None: it goes on."""


class GoalMessage(GoalEvent, tag="told", frozen=True, kw_only=True):
    text: str


class GoalOver(GoalEvent, tag="over", frozen=True, kw_only=True):
    met: bool
    why: str = ""


AnyGoalEvent: TypeAlias = (
    GoalBegun
    | PlanChanged
    | PlanTried
    | QuestionPut
    | QuestionAnswered
    | AcceptanceTried
    | StepPlaced
    | StepBriefed
    | StepEnded
    | ReviewPlaced
    | ReviewGiven
    | StepObjected
    | StepBoarded
    | StepLanded
    | StepAsked
    | StepLeftOut
    | StepDropped
    | StepAgain
    | DoneChecked
    | JudgePlaced
    | GoalJudged
    | RoundBegun
    | GoalPaused
    | GoalResumed
    | GoalDelayed
    | GoalMessage
    | GoalOver
)

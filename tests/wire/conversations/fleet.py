"""What is said in a fleet: an order is submitted, placed, asks, is answered and done; and everything else once."""

from typing import Any

from treadle.wire.common.connection import Conversation
from treadle.wire.fleet import messages, records, train
from treadle.wire.fleet.connection import Published
from treadle.wire.fleet.orders import OrderLimits, OrderPolicy, Spec
from treadle.wire.goal import records as goal
from treadle.wire.goal.plan import GoalPlan, PlannedOrder

SPEC = Spec(
    id="a1",
    task="fix the test \u2028 and say so",
    claims=("src/**",),
    limits=OrderLimits(usd=2.5),
    policy=OrderPolicy(deny_write=("secrets/**",)),
    by="ann",
    created=1700000000.0,
)
USED = records.Used(input_tokens=7, usd=0.1)
ATTEMPT = records.Attempt(number=1, node="n1", placed=1700000001.0, outcome="done", used=USED)
QUESTION = records.AgentQuestion(request="r1", kind="permission", text="May it run?", command="make", paths=("a",))
ASK = records.AskRecord(
    order="a1", number=1, attempt=1, request="r1", command="make", asked_at=2.0, deadline=9.0, default="deny"
)


def _client(subject: str, content: Any) -> tuple[str, Published]:
    return "client", Published(subject, content)


def _scheduler(subject: str, content: Any) -> tuple[str, Published]:
    return "scheduler", Published(subject, content)


SAMPLES: list[Conversation] = [
    [
        _scheduler("$KV.fleet.lease.scheduler", records.LeaseRecord(name="n1", since=1.0, at=2.0)),
        _client("$KV.fleet.node.n1", records.NodeRecord(format=1, name="n1", slots=4, version="0.2.0")),
        _client("fleet.beat.n1.node", messages.NodeBeat(format=messages.FLEET_FORMAT, slots=4, labels=("gpu",))),
        _client("$KV.fleet.spec.a1", SPEC),
        _scheduler("$KV.fleet.order.a1", records.Order(id="a1", state="placed", changed=1.5, node="n1", attempt=1)),
        _scheduler("$KV.fleet.work.n1.a1", records.WorkRecord(order="a1", attempt=1, agent="native")),
        _client("fleet.in.node.n1.started", messages.AttemptStarted(order="a1", attempt=1)),
        _client(
            "fleet.beat.n1.a1.1",
            messages.RunActivity(doing="model", last_event=3.0, used=USED, tree=messages.TreeSeen(cpu=1.5)),
        ),
        _client("fleet.in.node.n1.asked", messages.RunAsked(order="a1", attempt=1, ask=QUESTION, number="r1", nth=1)),
        _scheduler("$KV.fleet.ask.a1.1", ASK),
        _scheduler("fleet.tell.n1.a1", messages.AskNumbered(request="r1", ask="a1.1")),
        _client("$KV.fleet.answer.a1.1", records.AnswerRecord(decision="allow", by="ann", at=3.0)),
        _client("$KV.fleet.taken.a1.1.17", records.TakenRecord(by="n1", attempt=1)),
        _client("fleet.in.node.n1.resumed", messages.RunResumed(order="a1", attempt=1, number="r1", nth=1)),
        _client("$KV.fleet.say.a1.1", records.SayRecord(format=1, text="use tabs", by="ann", when="now")),
        _client("fleet.in.node.n1.ended", messages.RunEnded(order="a1", attempt=1, outcome="done", used=USED)),
        _scheduler("$KV.fleet.receipt.a1", records.OrderReceipt(order="a1", outcome="done", attempts=(ATTEMPT,))),
        _scheduler("fleet.ended.a1", messages.OrderEnded(state="done", why="")),
    ],
    [
        _client("fleet.in.node.n1.lost", messages.RunLost(order="a1", attempt=1, why="its runner was ended")),
        _client("fleet.in.node.n1.rate", messages.RateReported(order="a1", attempt=1, account="claude", until=9.5)),
        _client("fleet.in.node.n1.touched", messages.WorktreeTouched(order="a1", attempt=1, by="ann")),
        _scheduler("$KV.fleet.active.a1", records.ActiveRecord()),
        _scheduler("$KV.fleet.control", records.Control(limits={"agent:claude": 2})),
        _scheduler("fleet.notice.a1", messages.StallNotice(order="a1", what="stalled", do="notify")),
    ],
    [
        _client("$KV.fleet.boards.a1", train.Boarding(order="a1", root="/src/shop", branch="main", verify="make test")),
        _client("$KV.fleet.steers.t1", train.TrainRequest(by="ann", pause="a release")),
        _scheduler("$KV.fleet.drives.t1", train.DriverRecord(host="h", pid=7, start=8, token="x")),
        _scheduler("$KV.fleet.train.t1", train.TrainRecord(repository="/src/shop", branch="main", landed=1)),
        _client(
            "$KV.fleet.landed.a1.t1",
            train.LandedRecord(order="a1", train="t1", branch="main", commit="c1", tree="e1", seq=1, at=4.0),
        ),
    ],
    [
        _scheduler("$KV.fleet.watch.w1", records.WatchRecord(source="github:acme/shop", label="agent", order={})),
        _client("$KV.fleet.goalrequest.r1", goal.GoalRequest(goal="g1", do="pause", by="ann", at=5.0)),
        _scheduler("$KV.fleet.goal.g1", goal.GoalRecord(id="g1", goal="A shop", steps={"till": goal.GoalStep()})),
        _scheduler("$KV.fleet.goalplan.g1.1", GoalPlan(goal="A shop", order=(PlannedOrder(id="till", task="Do it."),))),
        _scheduler("$KV.fleet.goallog.g1.1", goal.StepPlaced(at=5.0, step="till", order="a1")),
    ],
    [
        _client(f"fleet.in.wish.{type(request).__struct_config__.tag}", request)
        for request in (
            messages.CancelOrder(order="a1", by="ann", why="enough"),
            messages.SetRequest(order="a1", by="ann", priority=9, limits={"usd": 5.0, "turns": None}),
            messages.HandRequest(order="a1", by="ann", to="codex"),
            messages.NoteRequest(order="a1", by="ann", what="merged", result={"merged": True}),
            messages.PauseRequest(scope="agent:claude", by="ann", now=True),
            messages.ResumeRequest(scope="agent:claude", by="ann"),
            messages.DrainRequest(node="n1", by="ann"),
            messages.UndrainRequest(node="n1", by="ann"),
            messages.BudgetRequest(scope="fleet", by="ann", usd=None),
            messages.LimitRequest(scope="agent:claude", by="ann", most=2),
            messages.CleanRequest(orders=("a1",), by="ann"),
            messages.KeepRequest(keep_seconds=3600.0, by="ann"),
            messages.UnparkRequest(account="claude", by="ann"),
        )
    ],
    [
        _scheduler("fleet.tell.n1.a1", instruction)
        for instruction in (
            messages.Leave(attempt=1),
            messages.StopRun(why="cancelled by ann"),
            messages.HandBack(),
            messages.Hold(),
            messages.GoOn(),
            messages.Nudge(why="stalled"),
        )
    ],
    [
        _client("fleet.term.n1.a1", request)
        for request in (
            messages.TerminalOpen(what="shell", by="ann"),
            messages.TerminalWrite(id="t1", data=b"ls\n\xff"),
            messages.TerminalRead(id="t1"),
            messages.TerminalClose(id="t1"),
        )
    ],
]

"""What is to be done next for a goal. Pure: from its record, its plan and what is seen of its orders, one step.

Everything is written down before it is done: first the happening, then the order that it names, whose id follows from
the record. So the one who comes after a crash, or at the same time, does the same again, which changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from treadle.fleet.orders import PERSON, new_id
from treadle.goals.waves import waves
from treadle.policy.patterns import overlaps
from treadle.wire.fleet.records import Used
from treadle.wire.goal import records
from treadle.wire.goal.plan import GoalPlan, PlannedOrder

SENT_BACK = 2
"""How often an order goes back to its author before a person is asked."""
REVIEWS = 3
"""A first review and two rounds."""
ROUNDS = 5
BARREN = 2
"""Rounds in a row without a landed change after which a person is asked."""
FULL = 0.98
"""The fraction of a budget at which it counts as spent: no order could do anything with the rest."""


class OrderSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is seen of an order of the fleet."""

    stored: bool = True
    """False when it was decided on and is not submitted yet."""
    ended: bool = False
    ok: bool = False
    cancelled: bool = False
    unable: bool = False
    """Whether no node could even begin with it."""
    short: str = ""
    """Why the goal's budget keeps it from going on, whatever else ends."""
    why: str = ""
    used: Used = Used()
    changed: bool = False
    """Whether it has left a change that could land."""
    commit: str = ""
    """That change."""
    touched: tuple[str, ...] = ()
    """Files that were there before, that its acceptance is made of, and that it changed."""
    rides: bool = False
    """Whether its change is in the train, or who can help works on it."""
    asks: str = ""
    """The order by which the train asks a person about it."""
    landed: str = ""
    left_out: str = ""
    given_up: bool = False
    """Whether the train has found no one who could help: author, reconciler and person have tried."""
    helped: dict[str, Used] = {}
    """What those have used, by role, who helped after it was sent back; known when it has landed or was left out."""
    retried_as: str = ""
    allow: bool = False
    says: str = ""
    by: str = ""


class GoalSeen(msgspec.Struct, frozen=True, kw_only=True):
    now: float
    tip: str = ""
    orders: Mapping[str, OrderSeen] = {}
    spent_usd: float = 0.0
    spent_tokens: int = 0
    budget_known: bool = True
    """Whether the fleet knows what all orders of the goal may use together."""


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """Write down that this happened."""

    event: records.AnyGoalEvent


_Submission: TypeAlias = Literal["submit work", "submit review", "submit judge", "submit question", "board"]
_Check: TypeAlias = Literal["try acceptance", "try plan", "run done"]
"""Submit an order or a question that was decided on; read an answer and write down what it says; run commands on the
branch as it is (of a step, of the whole plan, what proves the goal); queue a step's change in the train; tell the fleet
what all orders of the goal may use together."""


class Do(msgspec.Struct, frozen=True):
    what: _Submission | _Check | Literal["take review", "take judgement", "tell budget"]
    about: str = ""
    """The step, or what is asked."""


class CancelOpen(msgspec.Struct, frozen=True, kw_only=True):
    orders: tuple[str, ...]
    why: str


GoalMove: TypeAlias = Happened | Do | CancelOpen


def moves(record: records.GoalRecord, plan: GoalPlan, seen: GoalSeen) -> Iterator[GoalMove]:
    """What can be done now, the first first. After each that writes something down, ask again."""
    open_ = tuple(order for order, each in seen.orders.items() if each.stored and not each.ended)
    if record.ended:
        if open_:
            yield CancelOpen(orders=open_, why=f"the goal {record.id} is over")
        return
    if void := tuple(order for order in record.void if order in open_):
        yield CancelOpen(orders=void, why="there is more to do, so it is asked later")
    if not seen.budget_known:  # the process that began the goal or raised its budget did not finish that
        yield Do("tell budget")
    yield from _heard(record, seen)
    if record.state == "running":
        yield from _Deciding(record, plan, seen).decided()


def question_id(goal: str, about: str, number: int) -> str:
    return new_id(f"{goal} asks {about} {number}")


def work_id(goal: str, step: str, earlier: tuple[str, ...]) -> str:
    """The id of an order that begins anew; readable for the first."""
    return new_id(f"{goal} {step} {len(earlier)}") if earlier else f"{goal}-{step}"


def again_id(order: str) -> str:
    """The id of the order that continues this one, as `fleet.client.retry` makes it."""
    return new_id(f"retry of {order}")


def _heard(record: records.GoalRecord, seen: GoalSeen) -> Iterator[GoalMove]:
    """What became of what was placed; and what was decided on and is not submitted yet."""
    nothing = OrderSeen(stored=False)
    for about, order in record.questions.items():
        asked = seen.orders.get(order, nothing)
        if not asked.stored:
            yield Do("submit question", about)
        elif asked.ended:
            by = asked.by if asked.ok else "deadline"
            yield Happened(
                event=records.QuestionAnswered(at=seen.now, by=by, about=about, allow=asked.allow, text=asked.says)
            )
    for name, step in record.steps.items():
        found = seen.orders.get(step.order, nothing)
        if step.state == "landing" and found.landed:
            yield Happened(event=records.StepLanded(at=seen.now, step=name, commit=found.landed, helped=found.helped))
        elif step.state in ("working", "landing") and found.retried_as:
            yield Happened(event=records.StepPlaced(at=seen.now, step=name, order=found.retried_as, fresh=False))
        elif step.state == "working" and not found.stored:
            yield Do("submit work", name)
        elif step.state == "working" and found.cancelled:
            yield Happened(event=records.StepDropped(at=seen.now, step=name, why=found.why))
        elif step.state == "working" and found.ended:
            fields = {
                "ok": found.ok,
                "unable": found.unable,
                "why": found.why,
                "used": found.used,
                "commit": found.commit,
            }
            yield Happened(event=records.StepEnded(at=seen.now, step=name, **fields))  # type: ignore[arg-type]
        elif step.state == "reviewing" and step.review:
            review = seen.orders.get(step.review, nothing)
            if not review.stored:
                yield Do("submit review", name)
            elif review.ended:
                yield Do("take review", name)
        elif step.state == "landing" and found.left_out and found.given_up:
            yield Happened(event=records.StepDropped(at=seen.now, step=name, why=found.left_out))
        elif step.state == "landing" and found.left_out:
            yield Happened(event=records.StepLeftOut(at=seen.now, step=name, why=found.left_out, helped=found.helped))
        elif step.state == "landing" and found.asks != step.asks:
            yield Happened(event=records.StepAsked(at=seen.now, step=name, order=found.asks))
        elif step.state == "landing" and not found.rides:
            yield Do("board", name)
    if record.judge:
        judge = seen.orders.get(record.judge, nothing)
        if not judge.stored:
            yield Do("submit judge")
        elif judge.ended:
            yield Do("take judgement")


class _Deciding:
    def __init__(self, record: records.GoalRecord, plan: GoalPlan, seen: GoalSeen) -> None:
        self.record, self.plan, self.seen = record, plan, seen
        self.found: list[GoalMove] = []
        found, _ = waves(plan)
        self.wave = {name: wave.number for wave in found for name in wave.orders}

    def decided(self) -> list[GoalMove]:
        if "plan" not in self.plan.gated or self._agreed("plan", "Carry out this plan?", outlined(self.plan)):
            if "plan" in self.plan.gated and not self.record.answers["plan"].allow:
                self._over(False, f"the plan was not agreed to: {self._answer_text('plan')}")
            else:
                self._go_on()
        return self.found

    def _go_on(self) -> None:
        if not self.record.tried and not self.record.placed:  # before an agent is paid
            return self.found.append(Do("try plan"))
        if self.record.wrong:
            if not self._agreed("tried", "Nothing could land with these commands. Go on?", self.record.wrong):
                return
            if not self.record.answers["tried"].allow:
                return self._over(False, f"{self.record.wrong}\n{self._answer_text('tried')}")
        if short := next((each.short for each in self.seen.orders.values() if each.short), ""):
            self._ask_for_more(short)
        for planned in self.plan.order:
            step = self.record.steps[planned.id]
            if step.state == "waiting":
                self._begin(planned, step)
            elif step.state == "red":
                self._fix(planned, step)
            elif step.state in ("done", "approved") or step.state == "reviewing" and not step.review:
                self._bring_home(planned, step)
        if all(step.state in records.OVER for step in self.record.steps.values()):
            self._conclude()

    # Asking...

    def _agreed(self, about: str, title: str, text: str = "") -> bool:
        """Whether this was answered. If it was not asked yet, it is."""
        if about in self.record.answers:
            return True
        if about not in self.record.questions:
            order = question_id(self.record.id, about, self.record.asked)
            title = f"{title} ({self.record.goal[:60]})"
            self._note(records.QuestionPut(at=self.seen.now, about=about, order=order, title=title, text=text or title))
        return False

    def _answer_text(self, about: str) -> str:
        answer = self.record.answers[about]
        return f"{answer.by}{f': {answer.text}' if answer.text else ' said no'}"

    def _note(self, event: records.AnyGoalEvent) -> None:
        self.found.append(Happened(event=event))

    def _over(self, met: bool, why: str) -> None:
        self._note(records.GoalOver(at=self.seen.now, met=met, why=why))

    # One order...

    def _begin(self, planned: PlannedOrder, step: records.GoalStep) -> None:
        """Place it, if what it needs has landed and nothing else is in the way."""
        name, now = planned.id, self.seen.now
        if lost := next((each for each in planned.after if self.record.steps[each].state == "dropped"), ""):
            return self._note(records.StepDropped(at=now, step=name, why=f"it needs {lost}, which was dropped"))
        if waits_for(self.record, self.plan, planned, self.wave) or not self._room():
            return
        gates = {*self.plan.gated, *planned.gates}
        together = [each for each, number in self.wave.items() if number == self.wave[name]]
        text, number = outlined_wave(self.plan, together), self.wave[name]
        if "wave" in gates and not self._gate(f"wave:{number}", f"Begin wave {number}?", name, text):
            return
        text = outlined_wave(self.plan, [name])
        if "order" in gates and not self._gate(f"order:{name}", f"Begin {name}?", name, text):
            return
        if planned.accept and not planned.already:
            if not step.accept:
                return self.found.append(Do("try acceptance", name))
            title = f"The acceptance of {name} passes before anything is done. Do it anyway?"
            if step.accept == "passes" and not self._gate(f"accept:{name}", title, name, "\n".join(planned.accept)):
                return
        self._note(records.StepPlaced(at=now, step=name, order=work_id(self.record.id, name, step.orders)))

    def _gate(self, about: str, title: str, step: str, text: str = "") -> bool:
        """Whether a person agreed. Without agreement, the order is dropped."""
        if not self._agreed(about, title, text):
            return False
        if not self.record.answers[about].allow:
            self._note(
                records.StepDropped(at=self.seen.now, step=step, why=f"not agreed to: {self._answer_text(about)}")
            )
            return False
        return True

    def _fix(self, planned: PlannedOrder, step: records.GoalStep) -> None:
        """It failed, was objected to or was left out."""
        name = planned.id
        if planned.on_red == "drop":
            return self._note(records.StepDropped(at=self.seen.now, step=name, why=step.why))
        if planned.on_red == "person" or step.reds > SENT_BACK or step.unable:
            about = f"red:{name}:{step.reds}"
            if not self._agreed(about, f"{name}: {step.why.partition(chr(10))[0][:200]} Try again?", step.comments):
                return
            if not self.record.answers[about].allow:
                why = f"{step.why} ({self._answer_text(about)})"
                return self._note(records.StepDropped(at=self.seen.now, step=name, why=why))
        if self._room():
            self._note(records.StepPlaced(at=self.seen.now, step=name, order=again_id(step.order), fresh=False))

    def _bring_home(self, planned: PlannedOrder, step: records.GoalStep) -> None:
        """Have it reviewed, ask what must be asked, and queue it for landing."""
        name, order = planned.id, self.seen.orders.get(step.order, OrderSeen())
        gates = {*self.plan.gated, *planned.gates}
        if not (planned.land and order.changed):
            return self._note(records.StepLanded(at=self.seen.now, step=name))
        if "agent:reviewer" in gates and step.state != "approved" and not self._reviewed(planned, step):
            return
        weaker = f"{name} changes what it is accepted by, or what other programs obey. Land it?"
        marks = [(f"weaker:{name}:{step.reds}", weaker)] if order.touched else []
        marks += [(f"land:{name}:{step.reds}", f"Land {name}?")] if "land" in gates else []
        for about, title in marks:
            if not self._agreed(about, title, f"{', '.join(order.touched)}\n`treadle fleet diff {step.order}`".strip()):
                return
            if not self.record.answers[about].allow:
                return self._note(records.StepObjected(at=self.seen.now, step=name, why=self._answer_text(about)))
        self._note(records.StepBoarded(at=self.seen.now, step=name))

    def _reviewed(self, planned: PlannedOrder, step: records.GoalStep) -> bool:
        """Whether a person approved in place of the reviewer. A reviewer that gives no verdict is replaced by one."""
        name = planned.id
        agent = role_of(self.plan, "reviewer")[0]
        if agent != PERSON and step.reviews < REVIEWS + step.reds:
            if self._room():
                order = new_id(f"{self.record.id} reviews {step.order} {step.reviews}")
                self._note(records.ReviewPlaced(at=self.seen.now, step=name, order=order))
            return False
        about = f"review:{name}:{step.reds}"
        if not self._agreed(about, f"Is the work of {name} good?", f"`treadle fleet diff {step.order}` shows it"):
            return False
        if not self.record.answers[about].allow:
            self._note(records.StepObjected(at=self.seen.now, step=name, why=self._answer_text(about)))
            return False
        return True

    # The budget...

    def _room(self) -> bool:
        """Whether another order may be placed. At a limit of the budget a person is asked."""
        why = over_budget(self.record, self.plan, self.seen)
        if why:
            self._ask_for_more(why)
        return not why

    def _ask_for_more(self, why: str) -> None:
        about = f"budget:{self.record.raised}"
        if self._agreed(about, f"{why}. Allow as much again?", "\n".join(went(self.record, self.seen))):
            self._over(False, f"{why}; {self._answer_text(about)}")

    # All of it...

    def _conclude(self) -> None:
        """Nothing is left: is the goal met?"""
        record, now = self.record, self.seen.now
        if record.judge or record.questions.keys() & {f"round:{record.round}"}:
            return
        if record.done is None or record.done.tip != self.seen.tip:
            return self.found.append(Do("run done"))
        agent = role_of(self.plan, "judge")[0]
        if record.judged is None and agent not in ("none", PERSON):
            if self._room():
                self._note(
                    records.JudgePlaced(at=now, order=new_id(f"{record.id} judges {record.round} {record.placed}"))
                )
            return
        judgement = record.judged
        if record.done.ok and (agent == "none" or judgement is not None and judgement.met):
            return self._over(True, judgement.why if judgement is not None else f"{self.plan.done} passes")
        wrong = f"`{self.plan.done}` {'passes' if record.done.ok else 'fails'} on {record.branch}"
        text = f"{wrong}\n{judgement.why if judgement is not None else ''}\n{record.done.output}".strip()
        about = f"round:{record.round}"
        title = f"{'Is it met?' if agent == PERSON else 'The goal is not met.'}"
        title = f"{title} Go on?" if not (agent == PERSON and record.done.ok) else title
        if self._agreed(about, title, text):
            allow = record.answers[about].allow
            if agent == PERSON and record.done.ok:
                self._over(allow, self._answer_text(about) if not allow else f"{record.answers[about].by} agreed")
            elif allow:
                self._note(records.RoundBegun(at=now))
            else:
                self._over(False, f"not met: {judgement.why if judgement is not None and judgement.why else wrong}")


def role_of(plan: GoalPlan, role: str) -> tuple[str, str]:
    """The agent of a role and its model: `worker = "codex gpt-5"`. No agent is the settings' one."""
    agent, _, model = plan.roles.get(role, "").partition(" ")
    return agent, model.strip()


def enough(record: records.GoalRecord) -> list[str]:
    """Why no further round begins without a person."""
    if record.round >= ROUNDS:
        return [f"it was judged {record.round} times"]
    if record.barren + record.is_barren >= BARREN:
        return [f"{BARREN} rounds have landed nothing that changes what `done` prints"]
    if record.is_barren and record.done is not None and record.done.ok:
        return ["`done` passes, and a round has changed nothing that it measures"]
    return []


def waits_for(record: records.GoalRecord, plan: GoalPlan, planned: PlannedOrder, wave: Mapping[str, int]) -> str:
    """What an order waits for before it is placed; empty when for nothing."""
    steps = record.steps
    if "plan" in plan.gated and "plan" not in record.answers:
        return "an answer about the plan"
    if missing := [each for each in planned.after if steps[each].state not in records.MET]:
        return f"{', '.join(missing)} to land"
    needed = wave[planned.id] if "wave" in plan.gated else planned.wave
    if earlier := [each for each in steps if wave[each] < needed and steps[each].state not in records.OVER]:
        return f"wave {wave[earlier[0]]}: {', '.join(earlier)}"
    for other in plan.order:
        if other.id != planned.id and steps[other.id].state not in ("waiting", *records.OVER):
            if any(overlaps(mine, theirs) for mine in planned.claims for theirs in other.claims):
                return f"{other.id}, which claims the same files"
    return ""


def over_budget(record: records.GoalRecord, plan: GoalPlan, seen: GoalSeen) -> str:
    """The limit that is reached; empty when there is room."""
    budget, times = plan.budget, 1 + record.raised
    if budget is None:
        return ""
    hours = (seen.now - record.began - record.rested) / 3600
    if budget.orders is not None and record.placed >= budget.orders * times:
        return f"{record.placed} of {budget.orders * times} orders are used"
    if budget.hours is not None and hours >= budget.hours * times:
        return f"{hours:.2f} of {budget.hours * times:g} hours are over"
    if budget.tokens is not None and seen.spent_tokens >= budget.tokens * times * FULL:
        return f"{seen.spent_tokens} of {budget.tokens * times} tokens are used"
    if budget.usd is not None and seen.spent_usd >= budget.usd * times * FULL:
        return f"{seen.spent_usd:.2f} of {budget.usd * times:g} USD are used"
    return ""


ROWS = 20
"""How many lines say where a budget went, the most expensive first."""


def went(record: records.GoalRecord, seen: GoalSeen) -> Iterator[str]:
    """Where the budget went: what each order took with all its tries and helpers, and each role beside them."""
    took = {
        name: (step.used, f" in {len(step.orders)} tr{'ies' if len(step.orders) > 1 else 'y'}")
        for name, step in record.steps.items()
    }
    took |= {role: (used, "") for role, used in record.used.items() if role in ("planner", "reviewer", "judge")}
    took["at work now"] = at_work(record, seen.spent_tokens, seen.spent_usd), ""
    rows = sorted(
        ((used, name, how) for name, (used, how) in took.items() if used.tokens), key=lambda row: -row[0].tokens
    )
    for used, name, how in rows[:ROWS]:
        yield f"{name}: {used.tokens:,} tokens{f', {used.usd:.2f} USD' if used.usd else ''}{how}"


def at_work(record: records.GoalRecord, tokens: int, usd: float) -> Used:
    """What its orders that have not ended have used, where all of them have used so much."""
    known = Used()
    for role, used in record.used.items():
        known = known.plus(used) if role != "planner" else known  # who planned it did not know its budget yet
    more = max(0.0, usd - (known.usd or 0.0))
    return Used(input_tokens=max(0, tokens - known.tokens), usd=more or None)


def allowance(plan: GoalPlan, raised: int) -> tuple[float | None, int | None]:
    """The money and the tokens that all orders may use together, after it was raised so often."""
    budget, times = plan.budget, 1 + raised
    if budget is None:
        return None, None
    return None if budget.usd is None else budget.usd * times, None if budget.tokens is None else budget.tokens * times


def outlined(plan: GoalPlan) -> str:
    """The plan for a person who is asked to agree: all that will run or be said to an agent, word for word."""
    lines = ["FROM OUTSIDE: no one here wrote these words."] if plan.source else []
    lines += _stated(plan, "order")
    lines += [f"{name}: {text}" for name, text in _NOT_GIVEN.items() if not getattr(plan, name)]
    for wave in waves(plan)[0]:
        lines += [f"\nwave {wave.number}, the shortest first", outlined_wave(plan, wave.orders)]
    return "\n".join(lines)


_NOT_GIVEN = {"verify": "none of its own", "budget": "none", "mode": "as the fleet is set"}


def outlined_wave(plan: GoalPlan, names: Iterable[str]) -> str:
    orders = {order.id: order for order in plan.order}
    stated = ["\n".join(_stated(orders[name])) for name in names]
    return "\n\n".join(sorted(stated, key=len))


def _stated(what: GoalPlan | PlannedOrder, *but: str) -> list[str]:
    """Every field that was given. Lines of a text are marked as its own, and what no one could see is spelled out, so
    that no text can pass for another field or hide one."""
    lines = []
    for name, value in msgspec.to_builtins(what).items():
        if name in but or name == "format":
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            text = ", ".join(f"{key} {part}" for key, part in each.items()) if isinstance(each, dict) else str(each)
            first, *more = text.strip().split("\n")
            lines += [f"{name}: {_visible(first)}", *(f"{' ' * len(name)}| {_visible(line)}" for line in more)]
    return lines


def _visible(text: str) -> str:
    return "".join(each if each.isprintable() else f"<{ord(each):04x}>" for each in text.replace("\t", "    "))

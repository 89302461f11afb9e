"""What became of a goal, for people: what was asked, what landed, by whom, for how much, and what was dropped and why.

Pure: Markdown from the record, and the same as a page. Briefs are counted as they were given; what restating would have
taken is the plan and its invariants in full for every order.
"""

import html
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from treadle.goals.waves import waves
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import AnyGoalEvent, GoalRecord, QuestionAnswered, QuestionPut

CACHED = 0.1
"""The price of a prompt's beginning that the provider has just seen, as a share of the full one."""


def markdown(
    record: GoalRecord,
    plan: GoalPlan,
    events: Sequence[AnyGoalEvent],
    agents: Mapping[str, str],
    receipts: Mapping[str, str],
) -> str:
    """The report. `agents` and `receipts` are by order: who did it, and the digest of its receipt."""
    return (
        "\n".join([*_head(record, plan), *_steps(record, plan, agents, receipts), *_cost(record), *_asked(events)])
        + "\n"
    )


def _head(record: GoalRecord, plan: GoalPlan) -> Iterator[str]:
    ended = record.ended or time.time()
    minutes = (ended - record.began - record.rested) / 60
    yield f"# {_cell(record.goal)}\n"
    yield f"**{record.state}**{f': {_cell(record.why)}' if record.why else ''}\n"
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.began))
    yield f"- goal `{record.id}`, begun by {record.by} on {began}"
    yield f"- {minutes:.1f} minutes of work, {record.round} round{'s' if record.round > 1 else ''} of judging"
    yield f"- proved by `{plan.done}`" + (f": {'passes' if record.done.ok else 'fails'}" if record.done else "")
    yield f"- landed on `{record.branch}`, each change checked by `{plan.verify or 'the check of the branch'}`"


def _steps(record: GoalRecord, plan: GoalPlan, agents: Mapping[str, str], receipts: Mapping[str, str]) -> Iterator[str]:
    orders = {order.id: order for order in plan.order}
    yield "\n## Orders\n"
    yield "| Wave | Order | What | State | By | Tries | Reviews | Commit | Tokens | Receipt |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for wave in waves(plan)[0]:
        for name in wave.orders:
            step, planned = record.steps[name], orders[name]
            title = planned.title or planned.task.strip().splitlines()[0]
            cells = [str(wave.number), name, _cell(title), step.state, agents.get(step.order, "-")]
            cells += [str(len(step.orders)), str(step.reviews), step.commit[:10] or "-", str(step.used.tokens)]
            yield f"| {' | '.join([*cells, receipts.get(step.order, '')[:12] or '-'])} |"
    dropped = {name: step.why for name, step in record.steps.items() if step.state == "dropped"}
    if dropped:
        yield "\n## Dropped\n"
        yield from (f"- {name}: {_cell(why)}" for name, why in dropped.items())


def _cost(record: GoalRecord) -> Iterator[str]:
    yield "\n## Used\n"
    yield "| Role | Input | Cached | Output | USD |"
    yield "|---|---|---|---|---|"
    total = Used()
    for role, used in record.used.items():
        total = total.plus(used)
        yield _used_row(role, used)
    yield _used_row("together", total)
    briefs = [step.brief for step in record.steps.values() if step.brief is not None]
    if briefs:
        given = sum(each.shared + each.own for each in briefs)
        cheap = (
            briefs[0].shared
            + round(CACHED * sum(each.shared for each in briefs[1:]))
            + sum(each.own for each in briefs)
        )
        restated = sum(each.restated for each in briefs)
        plans = [each.restated - each.own for each in briefs]
        again = plans[0] + round(CACHED * sum(plans[1:])) + sum(each.own for each in briefs)
        count = f"{len(briefs)} brief{'s' if len(briefs) > 1 else ''}"
        yield f"\n{count} took {given} tokens (estimated from what was sent);"
        yield f"restating the plan to each would have taken {restated}."
        yield f"Where beginnings are cached at a tenth of the price: {cheap} against {again}."


def _used_row(role: str, used: Used) -> str:
    cached = used.cache_read_tokens
    usd = "unknown" if used.usd is None else f"{used.usd:.4f}"
    return f"| {role} | {used.input_tokens + used.cache_write_tokens} | {cached} | {used.output_tokens} | {usd} |"


def _asked(events: Sequence[AnyGoalEvent]) -> Iterator[str]:
    asked = {event.about: event.title for event in events if isinstance(event, QuestionPut)}
    answered = [event for event in events if isinstance(event, QuestionAnswered)]
    if answered:
        yield "\n## Asked\n"
    for event in answered:
        added = f" ({_cell(event.text)})" if event.text else ""
        yield f"- {_cell(asked.get(event.about, event.about))}: {'yes' if event.allow else 'no'}, by {event.by}{added}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page(text: str, title: str) -> str:
    """The same report as an HTML page of its own, without scripts."""
    style = "body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto}td,th{padding:.2rem .6rem;text-align:left}"
    body = "\n".join(_html(text.splitlines()))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{style}</style>\n{body}\n</html>\n"
    )


def _html(lines: Sequence[str]) -> Iterator[str]:
    inside = ""
    for line in lines:
        kind = "table" if line.startswith("|") else "ul" if line.startswith("- ") else ""
        if kind != inside:
            yield f"{f'</{inside}>' if inside else ''}{f'<{kind}>' if kind else ''}"
            inside = kind
        if kind == "table":
            if not set(line) <= set("|-"):
                cells = re.split(r"(?<!\\)\|", line.strip("|"))
                yield "<tr>" + "".join(f"<td>{_inline(cell.strip())}</td>" for cell in cells) + "</tr>"
        elif kind == "ul":
            yield f"<li>{_inline(line[2:])}</li>"
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            yield f"<h{level}>{_inline(line[level:].strip())}</h{level}>"
        elif line.strip():
            yield f"<p>{_inline(line)}</p>"
    if inside:
        yield f"</{inside}>"


def _inline(text: str) -> str:
    safe = html.escape(text.replace("\\|", "|"))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", safe))

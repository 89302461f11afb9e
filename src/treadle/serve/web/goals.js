// The goals: a list, and one with its waves as it moves.

import { follow } from "./server.js";
import { el, fill, oneLine } from "./text.js";
import { table } from "./receipt.js";
import { short, stamp } from "./words.js";

/** @param {HTMLElement} where @param {{id?: string}} at */
export function show(where, { id }) {
  const body = el("div"), problem = el("p", { class: "problem", role: "alert" });
  fill(where, el("h1", null, id ? "Goal" : "Goals"), id ? el("p", { class: "small" }, el("a", { href: "#/goals" }, "All goals")) : null, problem, body);
  return follow(id ? `goal:${id}` : "goals", (message) => {
    if (message.error) { fill(problem, message.error.message); return; }
    fill(problem);
    if (id) fill(body, one(message.value)); else fill(body, list(message.value));
  });
}

/** @param {any[]} goals */
function list(goals) {
  if (!goals.length) return el("p", { class: "empty" }, "There is no goal yet. ", el("code", null, "treadle goal plan \"what is wanted\""), " makes a plan, and ", el("code", null, "treadle goal run goal.toml"), " has the fleet carry it out.");
  return table(["Goal", "State", "Orders", "Asks", "Used", "Began", "Id"], goals.map((goal) => [el("a", { href: `#/goals/${goal.id}` }, oneLine(goal.goal)), state(goal), `${goal.there} of ${goal.orders}${goal.dropped ? `, ${goal.dropped} dropped` : ""}`, asks(goal), spent(goal), stamp(goal.began), el("code", null, goal.id)]));
}

/** @param {any} goal */
function one(goal) {
  const line = goal.line, used = Object.entries(goal.used ?? {});
  return el("section", { class: "goal", "aria-label": `Goal ${oneLine(line.goal)}` },
    el("h2", null, line.goal), el("p", { role: "status" }, el("b", null, state(line)), line.why ? `: ${oneLine(line.why)}` : "", goal.judge ? [" · is judged by ", name(goal.judge)] : null),
    el("p", { class: "small" }, `lands on ${oneLine(line.branch)} of ${oneLine(line.repository)} · done when `, el("code", null, goal.done), ` · round ${goal.round} · begun ${stamp(line.began)} by ${oneLine(line.by)}`),
    (line.asks ?? []).length ? el("p", { class: "stopped" }, "Asks a person: ", asks(line)) : null,
    el("ol", { class: "waves", "aria-label": "Waves" }, goal.waves.map((/** @type {any} */ wave) => el("li", { class: "wave" }, el("h3", null, `Wave ${wave.number}`), el("ul", { class: "steps" }, wave.orders.map(step))))),
    goal.seen ? el("p", null, `${goal.seen.ok ? "✓" : "✕"} `, el("code", null, goal.done), ` ${goal.seen.ok ? "passes" : "fails"} on ${goal.seen.tip.slice(0, 10)}`, goal.judged ? ` · the judge: ${oneLine(goal.judged)}` : "") : null,
    el("h3", null, "Used"), el("p", null, spent(line), budget(goal)),
    used.length ? table(["Role", "Uncached", "Cached", "Output", "Calls"], used.map(([role, each]) => [role, short((each.input_tokens ?? 0) + (each.cache_write_tokens ?? 0)), short(each.cache_read_tokens ?? 0), short(each.output_tokens ?? 0), String(each.calls ?? 0)])) : null);
}

/** @param {any} each an order of the plan */
function step(each) {
  const told = each.state === "waiting" ? (each.waits ? `waits for ${oneLine(each.waits)}` : "waiting") : each.state === "landed" ? `landed as ${each.commit.slice(0, 10)}` : each.state;
  return el("li", { class: `step ${KIND[each.state] ?? "open"}` }, el("b", null, `${MARK[each.state] ?? "◔"} ${each.id}`), el("span", null, oneLine(each.title)),
    el("span", { class: "small" }, told, each.reds ? ` · sent back ${each.reds === 1 ? "once" : `${each.reds} times`}` : "", each.order ? [" · ", name(each.order)] : null, each.review ? [" · review ", name(each.review)] : null, each.agent ? ` · ${oneLine(each.agent)}` : ""),
    each.why && each.state !== "landed" ? el("span", { class: "small" }, oneLine(each.why).slice(0, 300)) : null);
}

/** @type {Record<string, string>} */
const MARK = { landed: "✓", answered: "✓", dropped: "⊘", red: "✕", working: "▶", reviewing: "▶", waiting: "○" };
/** @type {Record<string, string>} */
const KIND = { landed: "green", answered: "green", dropped: "red", red: "red", waiting: "waits" };
/** @type {Record<string, string>} */
const STATES = { met: "✓ met", stopped: "■ stopped", paused: "■ paused", running: "▶ running" };
/** @param {any} line */
const state = (line) => (line.asks ?? []).length && line.state === "running" ? "? asks" : STATES[line.state] ?? line.state;
/** @param {any} line */
const asks = (line) => (line.asks ?? []).map((/** @type {any} */ each) => [el("a", { href: `#/order/${each.order}` }, oneLine(each.about)), " "]);
/** @param {any} line */
const spent = (line) => line.spent_tokens || line.spent_usd ? `${short(line.spent_tokens ?? 0)} tok · $${(line.spent_usd ?? 0).toFixed(2)}` : "nothing measured";
/** @param {any} goal */
function budget(goal) {
  if (!goal.budget) return " · no budget";
  const times = 1 + (goal.raised ?? 0), given = Object.entries({ tokens: "tokens", usd: "USD", hours: "hours", orders: "orders" }).filter(([key]) => goal.budget[key]).map(([key, word]) => `${short(goal.budget[key] * times)} ${word}`);
  return ` of ${given.join(", ")} · ${goal.placed} orders placed`;
}
/** @param {string} id */
const name = (id) => el("a", { href: `#/order/${id}` }, id);

// The goals: a list, and one with its waves as it moves, and what people do about it.

import { follow, get, link, post } from "./server.js";
import { drafts } from "./store.js";
import { el, fill, oneLine } from "./text.js";
import { table } from "./receipt.js";
import { short, stamp } from "./words.js";

/** @param {HTMLElement} where @param {{id?: string}} at */
export function show(where, { id }) {
  const body = el("div"), steer = el("div"), texts = el("div"), problem = el("p", { class: "problem", role: "alert" });
  fill(where, el("h1", null, id ? "Goal" : "Goals"), id ? el("p", { class: "small" }, el("a", { href: "#/goals" }, "All goals")) : null, problem, body, steer, texts);
  /** @type {Act} */
  const act = async (path, given) => { try { await post(path, given); fill(problem); return true; } catch (error) { fill(problem, /** @type {Error} */ (error).message); return false; } };
  if (!id && link.right === "all") beginning(steer);
  return follow(id ? `goal:${id}` : "goals", (message) => {
    if (message.error) { fill(problem, message.error.message); return; }
    fill(problem);
    if (!id) { fill(body, list(message.value)); return; }
    fill(body, one(message.value, act));
    if (link.right === "all") steering(steer, message.value.line, act);
    written(texts, message.value.line, act);
  });
}

/** @typedef {(path: string, given?: any) => Promise<boolean>} Act */

/** Buttons and a line to write in, made anew only when the state changes: what is being written stays. @param {HTMLElement} where @param {any} line @param {Act} act */
function steering(where, line, act) {
  if (where.dataset.state === line.state) return;
  where.dataset.state = line.state;
  if (line.ended) { fill(where); return; }
  const at = `/goals/${line.id}`, words = el("input", { type: "text", class: "reason", "aria-label": "Message or reason" });
  /** @param {string} label @param {string} path @param {(text: string) => any} given @param {string} [kind] */
  const button = (label, path, given, kind = "quiet") => el("button", { type: "button", class: kind, onclick: async () => { if (await act(`${at}/${path}`, given(words.value))) words.value = ""; } }, label);
  const why = (/** @type {string} */ text) => ({ why: text });
  fill(where, el("section", { class: "steer", "aria-label": "Control" }, el("h3", null, "Control"), words,
    el("p", null, button("Message all agents", "say", (text) => ({ text })), " ", line.state === "paused" ? button("Resume", "resume", () => undefined) : button("Pause", "pause", why), " ", button("Stop", "stop", why, "deny")),
    el("p", { class: "small" }, "Your text is sent to the agents, or stored as the reason. Stop cancels running orders; landed work stays.")));
}

const STARTER = `goal = "Orders can be exported as CSV"
done = "make test"
verify = "make test"
budget = { tokens = 500000, orders = 10 }

[[order]]
id = "export"
task = "Write orders as CSV, with a test."
claims = ["src/export.py"]
`;

/** A plan that a person writes or pastes: checked, then begun. What was written stays when the page is left. @param {HTMLElement} where */
function beginning(where) {
  const names = el("datalist", { id: "goal-roots" }), root = el("input", { type: "text", list: "goal-roots", required: true, placeholder: "/src/shop" });
  const plan = el("textarea", { rows: "16", class: "plan", required: true, spellcheck: "false" }), found = el("div", { role: "status" }), problem = el("p", { class: "problem", role: "alert" });
  root.value = localStorage.getItem("new root") ?? "";
  plan.value = drafts.get("goal") || STARTER;
  plan.addEventListener("input", () => drafts.set("goal", plan.value));
  /** @param {string} path @param {(answer: any) => void} then */
  const give = async (path, then) => { fill(problem); fill(found); try { then(await post(path, { root: root.value.trim(), text: plan.value })); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } };
  const begin = (/** @type {Event} */ event) => { event.preventDefault(); void give("/goals", (begun) => { localStorage.setItem("new root", root.value.trim()); drafts.set("goal", ""); fill(found, el("p", null, "The goal starts when the scheduler has read it: ", el("a", { href: `#/goals/${begun.id}` }, begun.id))); }); };
  const box = el("details", null, el("summary", null, "Start a goal"), el("form", { class: "form", onsubmit: begin },
    el("label", null, "Repository, on the machine of this page", root), names, el("label", null, "Plan (goal.toml)", plan), found, problem,
    el("p", null, el("button", { type: "button", class: "quiet", onclick: () => give("/goals/check", (result) => fill(found, checked(result))) }, "Check"), " ", el("button", { class: "main" }, "Begin"))));
  box.addEventListener("toggle", () => { if (/** @type {HTMLDetailsElement} */ (box).open) get("/choices").then((/** @type {any} */ known) => fill(names, known.places.map((/** @type {string} */ value) => el("option", { value }))), () => {}); });
  fill(where, box);
}

/** @param {any} result of a check */
function checked(result) {
  const row = (/** @type {any} */ each) => el("li", null, `Line ${each.line}: ${each.place ? `${each.place}: ` : ""}${each.what}${each.hint ? ` (${each.hint})` : ""}`);
  if (result.mistakes.length) return [el("p", null, "Fix these mistakes first:"), el("ul", null, result.mistakes.map(row))];
  return [el("ul", null, result.waves.map((/** @type {any} */ wave) => el("li", null, `Wave ${wave.number}: ${wave.orders.join(", ")}`))), result.notes.length ? el("ul", { class: "small" }, result.notes.map(row)) : null];
}

/** The plan and the report, fetched when they are opened; made anew only when the state changes. @param {HTMLElement} where @param {any} line @param {Act} act */
function written(where, line, act) {
  if (where.dataset.state === line.state) return;
  where.dataset.state = line.state;
  const at = `/goals/${line.id}`, may = link.right === "all" && !line.ended;
  const plan = el("textarea", { rows: "20", class: "plan", readonly: !may, spellcheck: "false", "aria-label": "The plan" }), report = el("pre", { class: "small" });
  /** @param {string} label @param {() => Promise<void>} open @param {...any} inside */
  const box = (label, open, ...inside) => { const made = el("details", null, el("summary", null, label), ...inside); made.addEventListener("toggle", () => { if (/** @type {HTMLDetailsElement} */ (made).open) open(); }); return made; };
  fill(where,
    box("Plan", async () => { if (!plan.value) plan.value = (await get(`${at}/plan`)).text; }, plan,
      may ? el("p", null, el("button", { type: "button", class: "quiet", onclick: () => act(`${at}/change`, { text: plan.value }) }, "Change the plan"), el("span", { class: "small" }, " Orders that have started stay as they are.")) : null),
    box("Report", async () => fill(report, (await get(`${at}/report`)).text), report));
}

/** @param {any[]} goals */
function list(goals) {
  if (!goals.length) return el("p", { class: "empty" }, "No goals yet. ", el("code", null, "treadle goal plan \"what you want\""), " makes a plan, and ", el("code", null, "treadle goal run goal.toml"), " runs it.");
  return table(["Goal", "State", "Orders", "Asks", "Used", "Began", "Id"], goals.map((goal) => [el("a", { href: `#/goals/${goal.id}` }, oneLine(goal.goal)), state(goal), `${goal.there} of ${goal.orders}${goal.dropped ? `, ${goal.dropped} dropped` : ""}`, asks(goal), spent(goal), stamp(goal.began), el("code", null, goal.id)]));
}

/** @param {any} goal @param {Act} act */
function one(goal, act) {
  const line = goal.line, used = Object.entries(goal.used ?? {});
  return el("section", { class: "goal", "aria-label": `Goal ${oneLine(line.goal)}` },
    el("h2", null, line.goal), el("p", { role: "status" }, el("b", null, state(line)), line.why ? `: ${oneLine(line.why)}` : "", goal.judge ? [" · judged by ", name(goal.judge)] : null),
    el("p", { class: "small" }, `lands on ${oneLine(line.branch)} of ${oneLine(line.repository)} · done when `, el("code", null, goal.done), ` · round ${goal.round} · begun ${stamp(line.began)} by ${oneLine(line.by)}`),
    (line.asks ?? []).map((/** @type {any} */ each) => question(each, act)),
    el("ol", { class: "waves", "aria-label": "Waves" }, goal.waves.map((/** @type {any} */ wave) => el("li", { class: "wave" }, el("h3", null, `Wave ${wave.number}`), el("ul", { class: "steps" }, wave.orders.map((/** @type {any} */ each) => step(each, line, act)))))),
    goal.seen ? el("p", null, `${goal.seen.ok ? "✓" : "✕"} `, el("code", null, goal.done), ` ${goal.seen.ok ? "passes" : "fails"} on ${goal.seen.tip.slice(0, 10)}`, goal.judged ? ` · the judge: ${oneLine(goal.judged)}` : "") : null,
    el("h3", null, "Used"), el("p", null, spent(line), budget(goal)),
    used.length ? table(["Role", "Uncached", "Cached", "Output", "Calls"], used.map(([role, each]) => [role, short((each.input_tokens ?? 0) + (each.cache_write_tokens ?? 0)), short(each.cache_read_tokens ?? 0), short(each.output_tokens ?? 0), String(each.calls ?? 0)])) : null);
}

/** @param {any} each what the goal asks @param {Act} act */
function question(each, act) {
  const may = link.right !== "watch" && each.number;
  const give = (/** @type {string} */ decision, /** @type {string} */ label) => el("button", { type: "button", class: decision, onclick: () => act(`/orders/${each.order}/answer`, { decision, number: each.number }) }, label);
  return el("section", { class: "stopped", "aria-label": `Question ${oneLine(each.about)}` }, el("p", null, "Question for you: ", el("a", { href: `#/order/${each.order}` }, oneLine(each.about)), each.title ? ` · ${oneLine(each.title)}` : ""),
    each.text && each.text !== each.title ? el("pre", { class: "small" }, each.text) : null, may ? el("p", null, give("deny", "No"), " ", give("allow", "Yes")) : null);
}

/** @param {any} each an order of the plan @param {any} line its goal @param {Act} act */
function step(each, line, act) {
  const told = each.state === "waiting" ? (each.waits ? `waits for ${oneLine(each.waits)}` : "waiting") : each.state === "landed" ? `landed as ${each.commit.slice(0, 10)}` : each.state;
  return el("li", { class: `step ${KIND[each.state] ?? "open"}` }, el("b", null, `${MARK[each.state] ?? "◔"} ${each.id}`), el("span", null, oneLine(each.title)),
    el("span", { class: "small" }, told, each.reds ? ` · sent back ${each.reds === 1 ? "once" : `${each.reds} times`}` : "", each.order ? [" · ", name(each.order)] : null, each.review ? [" · review ", name(each.review)] : null, each.agent ? ` · ${oneLine(each.agent)}` : ""),
    each.why && each.state !== "landed" ? el("span", { class: "small" }, oneLine(each.why).slice(0, 300)) : null,
    each.state === "dropped" && !line.ended && link.right === "all" ? el("span", null, el("button", { type: "button", class: "quiet", onclick: () => act(`/goals/${line.id}/retry`, { step: each.id }) }, "Try again")) : null);
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

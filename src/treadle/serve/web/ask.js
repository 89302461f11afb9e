// A question of an agent: all of it, what it would touch, until when, and the answers.

import { link, post } from "./server.js";
import { announce, complain, el, fill, plain } from "./text.js";
import { stamp } from "./words.js";

const ON_SCREEN = 400;
let shownKey = "", shownAt = 0;
/** @type {any} */
let current = null;

/** @param {any} ask */
const keyOf = (ask) => `${ask.order}.${ask.number}`;

/** @param {any} ask @returns {string[]} what in it deserves a second look */
export function risks(ask) {
  const found = [];
  const command = String(ask.command ?? "");
  if (ask.tool_kind === "network" || /\b(curl|wget|ssh|scp|nc|git\s+push)\b/.test(command)) found.push("reaches the network");
  if (/\brm\s+-|\bunlink\b|\bgit\s+(reset\s+--hard|clean)|\bdd\s|\bmkfs|\btruncate\b/.test(command)) found.push("removes things");
  if (outside(ask).length) found.push("is outside its claim");
  return found;
}

/** Only where there are claims can something be outside of them. @param {any} ask @returns {string[]} */
function outside(ask) {
  const claims = /** @type {string[]} */ (ask.claims ?? []);
  if (!claims.length) return [];
  const within = (/** @type {string} */ path) => claims.some((claim) => matches(claim, path));
  return /** @type {string[]} */ (ask.paths ?? []).filter((path) => !within(path));
}

/** @param {string} glob @param {string} path */
function matches(glob, path) {
  const text = glob.replace(/[.+^${}()|\\]/g, "\\$&").replace(/\*\*\/?/g, "\u0001").replace(/\*/g, "[^/]*").replace(/\?/g, "[^/]").replaceAll("\u0001", ".*");
  return new RegExp(`(^|/)${text}$`).test(path);
}

/** @param {HTMLElement} where @param {any} detail an order with its open question */
export function showAsk(where, detail) {
  const ask = detail.ask, key = keyOf(ask), given = detail.answer;
  const mark = `${key} ${JSON.stringify(given)} ${link.right} ${link.live}`;
  if (where.dataset.mark === mark) return;
  where.dataset.mark = mark;
  if (shownKey !== key) { shownKey = key; shownAt = Date.now(); announce(`${plain(ask.agent)} asks: ${plain(ask.command || wordsOf(ask))}`); }
  current = { ask, given, where };
  fill(where, el("section", { class: "question", "aria-label": "Question" },
    el("p", { class: "who" }, el("b", null, ask.agent), " asks, on ", el("b", null, ask.node), ", ", el("age-of", { at: ask.asked_at }), " ago"),
    el("h2", { class: "asked" }, wordsOf(ask)),
    ask.why && ask.why !== ask.command ? el("p", { class: "small" }, ask.why) : null,
    ask.command ? el("pre", { class: "command", tabindex: "0", "aria-label": "Command" }, ask.command) : null,
    ask.options?.length ? el("ul", null, ask.options.map((/** @type {string} */ option) => el("li", null, option))) : null,
    ask.diff ? el("pre", { class: "command diff", tabindex: "0", "aria-label": "Proposed change" }, changedLines(ask.diff)) : null,
    !ask.command && !ask.diff && ask.args ? el("pre", { class: "command", tabindex: "0", "aria-label": "Input" }, JSON.stringify(ask.args, null, 2)) : null,
    touches(ask),
    el("p", { class: "deadline" }, "Answer within ", el("age-of", { at: ask.deadline, as: "left" }), ` (until ${stamp(ask.deadline)}); without one: `, el("b", null, ask.default)),
    given ? answered(detail, given) : answers(ask)));
}

/** @param {any} ask what is to be decided, in plain words */
export const wordsOf = (ask) => ask.headline || ask.text || "The agent has a question.";

/** @param {string} diff */
const changedLines = (diff) => diff.split("\n").map((line) => el("span", { class: line[0] === "+" ? "add" : line[0] === "-" ? "del" : "" }, `${line}\n`));

/** No one knows how outside agents confine what they run, unless they say it. @param {any} ask */
const confinement = (ask) => ask.confined ? ask.confined : ask.confined === "" ? "none: runs with your full permissions" : ask.mode ? `as set by mode ${ask.mode}` : "unknown";

/** @param {any} ask */
function touches(ask) {
  const out = outside(ask), warnings = risks(ask);
  const rows = [
    ["Tool", `${ask.tool ?? "unknown"} (${ask.tool_kind ?? "unknown"})`],
    ["Files", ask.paths?.length ? ask.paths.map((/** @type {string} */ path) => `${path}${out.includes(path) ? " (outside its claim)" : ""}`).join("\n") : ask.command ? "unknown" : "unknown"],
    ["Claims", ask.claims?.length ? ask.claims.join("\n") : "none"],
    ["Sandbox", confinement(ask)],
  ];
  return [
    warnings.length ? el("p", { class: "warning" }, el("i", { "aria-hidden": "true" }, "⚠ "), `It ${warnings.join(", ")}.`) : null,
    el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", null, name), el("dd", null, value)])),
  ];
}

/** @param {any} ask */
function answers(ask) {
  if (link.right === "watch") return el("p", { class: "watching" }, "Read-only: this device may not answer");
  const off = !link.live;
  const reason = el("input", { class: "reason", type: "text", placeholder: "reason (optional)", "aria-label": "Reason for denying" });
  const allow = el("button", { class: "allow", type: "button", disabled: off, onclick: () => tapAllow(ask, allow) }, "Allow once ", el("kbd", null, "y"));
  const rules = /** @type {string[]} */ (ask.always ?? []);
  const more = el("details", { class: "more-answers" }, el("summary", null, "More ", el("kbd", null, "a")),
    el("button", { type: "button", disabled: off, onclick: () => give(ask, "allow", { scope: "session" }) }, "Allow for this run"),
    rules.length
      ? el("div", null, el("button", { type: "button", disabled: off, onclick: () => give(ask, "allow", { scope: "always" }) }, "Always allow"),
        el("p", { class: "rule" }, "This rule would be stored: ", el("code", null, rules.join(", "))))
      : el("p", { class: "rule" }, "No rule can express this, so it cannot be allowed permanently."));
  return el("div", { class: "answers" },
    el("div", { class: "pair" }, el("div", { class: "deny-side" }, el("button", { class: "deny", type: "button", disabled: off, onclick: () => give(ask, "deny", { text: reason.value }) }, "Deny ", el("kbd", null, "n")), reason), allow),
    more);
}

/** On a small screen, what reaches far takes a second tap, on words that name it. @param {any} ask @param {any} button */
function tapAllow(ask, button) {
  const reach = risks(ask);
  if (reach.length && matchMedia("(max-width: 700px)").matches && !button.dataset.sure) {
    button.dataset.sure = "1";
    fill(button, `Tap again: it ${reach[0]}`);
    return;
  }
  give(ask, "allow", {});
}

/** @param {any} detail @param {any} given */
function answered(detail, given) {
  const problem = el("p", { class: "problem", role: "alert" });
  const back = el("button", { type: "button", onclick: async () => {
    try { await post(`/orders/${detail.order.id}/withdraw`, { number: detail.ask.number }); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  } }, "Withdraw");
  return el("div", { class: "answers" }, el("p", null, "Answered by ", el("b", null, given.by), `: ${given.decision}. Waiting for the runner. `), link.right === "watch" ? null : back, problem);
}

/** What was refused is said above everything: the question may be gone by then. @param {any} ask @param {"allow" | "deny"} decision @param {any} more */
async function give(ask, decision, more) {
  complain("");
  try {
    await post(`/orders/${ask.order}/answer`, { decision, number: ask.number, ...more });
    announce(`${decision === "allow" ? "Allowed" : "Denied"}: ${plain(ask.command || wordsOf(ask))}`);
    document.dispatchEvent(new CustomEvent("answered", { detail: ask.order }));
  } catch (error) {
    complain(/** @type {Error} */ (error).message);
  }
}

/** By key: only what was on screen, as it is, for long enough to be read. @param {"allow" | "deny"} decision */
export function answerByKey(decision) {
  if (!current || !current.where.isConnected || current.given || link.right === "watch" || !link.live) return false;
  if (Date.now() - shownAt < ON_SCREEN || keyOf(current.ask) !== shownKey) return false;
  give(current.ask, decision, decision === "deny" ? { text: current.where.querySelector(".reason")?.value ?? "" } : {});
  return true;
}

export function openMore() {
  const more = /** @type {HTMLDetailsElement | null} */ (current?.where.querySelector(".more-answers"));
  if (!more) return false;
  more.open = true;
  more.querySelector("button")?.focus();
  return true;
}

export const forgetAsk = () => { current = null; };

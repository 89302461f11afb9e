// What an order claimed, what was observed, what was verified; and why it is as it is.

import { get } from "./server.js";
import { el, fill, oneLine } from "./text.js";
import { clock, short, span, stamp } from "./words.js";

/** @param {HTMLElement} where @param {any} detail */
export function showReceipt(where, detail) {
  const receipt = detail.receipt;
  if (!receipt) return fill(where, el("p", { class: "empty" }, "No receipt yet. It is written when the order ends."));
  const result = receipt.result ?? {}, run = receipt.run ?? {};
  const claimed = run.trace?.length ? run.trace.findLast?.((/** @type {any} */ each) => each.text)?.text : result.says;
  fill(where,
    el("div", { class: "three" },
      column("Claimed", "Agent's summary", [["Outcome", run.outcome ?? receipt.outcome], ["Says", claimed ?? result.says ?? "nothing"]]),
      column("Observed", "Observed", [["Files", result.files ?? 0], ["Changed", (result.changed ?? []).join("\n") || "nothing"], ["Sum", result.stat], ["Branch", result.branch], ["Outside its claims", (result.outside_claims ?? []).join("\n")]]),
      column("Verified", "Evidence", [["Check", detail.spec.verify || "no check requested"], ["Passed", result.verified === true ? "yes" : result.verified === false ? "no" : "not checked"], ["Merged", result.merged ? `as ${String(result.merged).slice(0, 12)}` : "no"]])),
    receipt.run ? evidence(receipt.order) : null,
    attempts(receipt.attempts),
    receipt.approvals?.length ? [el("h2", null, "Answers"), table(["Asked", "Answer", "By", "When"], receipt.approvals.map((/** @type {any} */ one) => [one.command || one.text, one.decision, one.by, clock(one.at)]))] : null,
    receipt.notes?.length ? [el("h2", null, "History"), table(["When", "Who", "What"], receipt.notes.map((/** @type {any} */ note) => [stamp(note.at), note.by, note.what]))] : null,
    el("p", { class: "small" }, "sha256 ", el("code", null, receipt.sha256)));
}

/** @param {string} order */
function evidence(order) {
  const shown = el("pre", { class: "task evidence", tabindex: "0" }, "…");
  get(`/orders/${order}/evidence`).then((lines) => fill(shown, lines.join("\n")), () => fill(shown, "not known"));
  return [el("h2", null, "Evidence"), shown];
}

/** @param {string} title @param {string} about @param {any[][]} rows */
function column(title, about, rows) {
  return el("section", { class: "card" }, el("h2", null, title), el("p", { class: "small" }, about),
    el("dl", { class: "facts" }, rows.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => [el("dt", null, name), el("dd", null, value)])));
}

/** @param {string[]} head @param {any[][]} rows */
export function table(head, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": head[0] }, el("table", null, el("thead", null, el("tr", null, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", null, rows.map((row) => el("tr", null, row.map((cell, place) => el("td", { "data-name": head[place], class: typeof cell === "string" && cell.length > 40 ? "long" : null }, cell)))))));
}

/** @param {any[]} given */
function attempts(given) {
  if (!given?.length) return null;
  return [el("h2", null, "Attempts"), table(["Try", "Node", "Took", "Outcome", "Tokens", "Why"], given.map((one) => [one.number, one.node, one.ended ? span(one.ended - one.placed) : "runs", one.outcome ?? "", short((one.used?.input_tokens ?? 0) + (one.used?.output_tokens ?? 0)), oneLine(one.why ?? "")])),
    given.filter((one) => one.output).map((one) => [el("h3", null, `Output of the check, attempt ${one.number}`), el("pre", { class: "task", tabindex: "0" }, one.output)])];
}

/** @param {HTMLElement} where @param {any} detail */
export function showWhy(where, detail) {
  const why = detail.why ?? {}, rows = [["State", why.state], ["Why", why.why]];
  if (why.waits) rows.push(["Waits for", why.waits.text], ["Kind", why.waits.kind], ["Held by", why.waits.holder]);
  if (why.place) rows.push(["Place in line", why.place]);
  for (const text of why.nodes ?? []) rows.push(["Node", text]);
  if (why.verdict) rows.push(["Verdict", why.verdict], ["Does", why.activity?.doing], ["Evidence", (why.evidence ?? []).join("\n") || "none yet"], ["Next", why.next]);
  fill(where, el("dl", { class: "facts" }, rows.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => [el("dt", null, name), el("dd", null, value)])),
    attempts(detail.order.attempts), el("h2", null, "Task"), el("pre", { class: "task", tabindex: "0" }, detail.spec.task));
}

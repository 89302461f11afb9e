// Nodes, money and claims: tables, and two small charts drawn by us.

import { change, follow, link, post } from "./server.js";
import { el, fill, oneLine } from "./text.js";
import { table } from "./receipt.js";
import { clock, serverNow, short, span } from "./words.js";

/** What the tab "Fleet" has. @param {string} here */
export const parts = (here) => el("nav", { class: "tabs", "aria-label": "Parts of the fleet" }, ["Nodes", "Trains", "Money", "Claims"].map((name) =>
  el("a", { href: `#/${name.toLowerCase()}`, "aria-current": name === here ? "page" : null }, name)));

/** @param {HTMLElement} where @param {{name: string}} address */
export function show(where, { name }) {
  const body = el("div"), problem = el("p", { class: "problem", role: "alert" }), title = name[0].toUpperCase() + name.slice(1);
  fill(where, el("h1", { class: "unseen" }, title), parts(title), problem, body);
  const draw = { nodes, money, claims }[/** @type {"nodes"} */ (name)];
  /** @param {() => Promise<any>} work */
  const tried = async (work) => { try { await work(); fill(problem); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } };
  return follow(name, (message) => {
    if (message.error) { fill(problem, message.error.message); return; }
    if (body.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).matches("input")) return;
    fill(body, draw(message.value, tried));
  });
}

/** @param {any[]} value @param {(work: () => Promise<any>) => void} tried */
function nodes(value, tried) {
  if (!value.length) return el("p", null, "No node has connected yet. ", el("code", null, "treadle fleet up"), " starts one here.");
  return table(["Node", "State", "At work", "CPU", "Memory free", "Disk free", "Labels", "Says", "Action"], value.map((node) => [
    node.name, node.alive ? "▶ up" : `◌ gone${node.heard ? `, last heard ${span(serverNow() - node.heard)} ago` : ""}`, `${(node.at_work ?? []).length} of ${node.slots ?? "?"}`, ...machine(node.machine), (node.labels ?? []).join(", "), node.says ?? "",
    link.right === "all" ? el("button", { type: "button", class: "quiet", onclick: () => tried(() => post(`/nodes/${node.name}/${/^drained/.test(node.says ?? "") ? "undrain" : "drain"}`, /^drained/.test(node.says ?? "") ? undefined : {})) }, /^drained/.test(node.says ?? "") ? "Resume" : "Drain") : ""]));
}

/** How full a node's machine is. @param {any} seen */
function machine(seen) {
  /** @param {number | undefined} free @param {number | undefined} all */
  const room = (free, all) => all ? meter(1 - (free ?? 0) / all, `${size(free ?? 0)} of ${size(all)}`) : "";
  if (!seen) return ["", "", ""];
  return [seen.cpu === undefined || seen.cpu === null ? `${seen.cpus ?? "?"} CPUs` : meter(seen.cpu, `${Math.round(100 * seen.cpu)} % of ${seen.cpus ?? "?"}`), room(seen.memory_free, seen.memory), room(seen.disk_free, seen.disk)];
}

/** @param {number} bytes */
const size = (bytes) => bytes >= 1e12 ? `${(bytes / 1e12).toFixed(1)} TB` : bytes >= 1e9 ? `${(bytes / 1e9).toFixed(bytes >= 1e10 ? 0 : 1)} GB` : `${Math.round(bytes / 1e6)} MB`;
/** @param {number} share what is used of something @param {string} words */
const meter = (share, words) => el("span", { class: "machine" }, el("meter", { min: "0", max: "1", low: "0.8", high: "0.9", optimum: "0", value: share.toFixed(3), "aria-hidden": "true" }), words);

/** @param {any[]} value */
function claims(value) {
  if (!value.length) return el("p", { class: "empty" }, "No files are claimed.");
  return table(["Files", "Order", "Repository", "State", "Waits for"], value.map((claim) => [claim.claims.join("\n"), el("a", { href: `#/order/${claim.order}` }, oneLine(claim.title)), claim.place, claim.state, claim.waits_for ? [el("a", { href: `#/order/${claim.waits_for}` }, claim.waits_for), ` ${oneLine(claim.text)}`] : claim.state === "queued" ? "its turn" : "holds them"]));
}

/** @param {any} value @param {(work: () => Promise<any>) => void} tried */
function money(value, tried) {
  const { control, spent } = value;
  const usd = el("input", { type: "text", inputmode: "decimal", placeholder: "USD", "aria-label": "Budget of the fleet in USD" });
  return [
    table(["Budget", "Spent", "Of", "Tokens", "Of", "Price unknown"], Object.entries(control.budgets ?? {}).map(([scope, budget]) => [scope, `$${(budget.spent_usd ?? 0).toFixed(2)}`, budget.usd ? `$${budget.usd.toFixed(2)}` : "no limit", short(budget.spent_tokens ?? 0), budget.tokens ? short(budget.tokens) : "no limit", short(budget.unpriced_tokens ?? 0)])),
    link.right === "all" ? el("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); tried(() => change("/budgets", { scope: "fleet", usd: Number(usd.value) || null })); } }, usd, el("button", null, "Set budget")) : null,
    el("h2", null, "Cost per hour and in total"), lines(spent, (/** @type {any} */ each) => each.usd, (/** @type {number} */ sum) => `$${sum.toFixed(2)}`),
    el("h2", null, "Tokens per hour"), bars(spent, (/** @type {any} */ each) => each.tokens, short),
    Object.keys(control.pauses ?? {}).length ? [el("h2", null, "Paused"), table(["Scope", "By", "Why", "Action"], Object.entries(control.pauses).map(([scope, note]) => [scope, note.by, note.what ?? "", link.right === "all" ? el("button", { type: "button", class: "quiet", onclick: () => tried(() => post("/resume", { scope })) }, "Resume") : ""]))] : null,
    Object.keys(control.parks ?? {}).length ? [el("h2", null, "Rate-limited accounts"), table(["Account", "Until", "Why"], Object.entries(control.parks).map(([name, park]) => [name, clock(park.until), park.why ?? ""]))] : null,
  ];
}

/** @param {string} tag @param {Record<string, string | number>} properties @param {...any} children */
function svg(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, String(value));
  for (const child of children.flat()) made.append(typeof child === "string" ? document.createTextNode(child) : child);
  return made;
}

/** @param {any[]} given @param {(each: any) => number} of @param {(sum: number) => string} words */
function lines(given, of, words) {
  if (!given.length) return el("p", { class: "empty" }, "Nothing was spent in the last week.");
  let sum = given.reduce((all, each) => all + of(each), 0);
  if (!sum) return el("p", { class: "empty" }, "Nothing with a known price was used in the last week.");
  sum = 0;
  const from = given[0].hour, to = Math.max(given[given.length - 1].hour, from + 3600), sums = given.map((each) => { sum += of(each); return [each.hour, sum]; });
  const points = sums.map(([hour, total]) => `${40 + 740 * (hour - from) / (to - from)},${190 - 170 * total / (sum || 1)}`).join(" ");
  return [el("p", { class: "small" }, `${words(sum)} since ${new Date(from * 1000).toLocaleDateString()}`),
    svg("svg", { viewBox: "0 0 800 220", class: "chart", role: "img", "aria-label": `In total ${words(sum)}` }, svg("polyline", { points, fill: "none", stroke: "currentColor", "stroke-width": 2 }))];
}

/** @param {any[]} given @param {(each: any) => number} of @param {(value: number) => string} words */
function bars(given, of, words) {
  if (!given.length) return null;
  const most = Math.max(...given.map(of), 1), wide = Math.min(40, 740 / given.length);
  return [el("p", { class: "small" }, `at most ${words(most)} in an hour`),
    svg("svg", { viewBox: "0 0 800 220", class: "chart", role: "img", "aria-label": `At most ${words(most)} in an hour` }, given.map((each, place) => svg("rect", { x: 40 + place * wide, width: Math.max(1, wide - 2), y: 190 - 170 * of(each) / most, height: 170 * of(each) / most, fill: "currentColor", opacity: 0.7 }, svg("title", {}, `${new Date(each.hour * 1000).toLocaleString()}: ${words(of(each))}`))))];
}

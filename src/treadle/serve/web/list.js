// The left column: who needs you, what works, what waits, what is done; by project, and as much of it as the filter lets through.

import { get } from "./server.js";
import { board, keep, setting } from "./store.js";
import { el, fill, oneLine, setText } from "./text.js";
import { badge, ENDED, endOf, hasPrice, nowOf, stateOf, told, used } from "./words.js";

const TITLES = { needs: "Needs you", working: "Working", waiting: "Waiting", done: "Done" };
const KEPT = ["needs"];  // by urgency, whatever the project
const NOTHING = { needs: "Nothing needs you.", working: "No agent is working.", waiting: "No order is waiting.", done: "No finished orders." };
/** @type {Map<string, HTMLElement>} */
const made = new Map();
/** @type {Map<string, HTMLElement>} */
const heads = new Map();
/** @type {Record<string, any>} */
const parts = {};
const GROUPS = { project: "By project", goal: "By goal", agent: "By agent", node: "By node", none: "Not grouped" };
const filter = el("input", { type: "search", placeholder: "Filter: agent:claude", "aria-label": "Filter the board" });
const unpriced = el("p", { class: "more unpriced" });
let grouping = setting("group", "project");
/** Goal -> what it is about, while the board is grouped by goals. @type {Map<string, string>} */
const goals = new Map();
const GOALS_EVERY = 10_000;
let goalsRead = 0;
let selected = "";
let held = false;

/** @param {HTMLElement} where */
export function showList(where) {
  const group = el("select", { "aria-label": "Group the board", onchange: () => {
    grouping = group.value;
    keep("group", grouping);
    arrange(true);
  } }, Object.entries(GROUPS).map(([value, words]) => el("option", { value }, words)));
  group.value = grouping;
  filter.addEventListener("input", () => arrange(true));
  where.append(el("div", { class: "list-bar" }, filter, group));
  for (const [name, title] of Object.entries(TITLES)) {
    const count = el("b", { class: "count" });
    const rows = el("div", { class: "rows" });
    const more = el("p", { class: "more" });
    const chip = el("button", { class: "chip", type: "button", hidden: true, onclick: () => arrange(true) });
    const box = el(name === "done" ? "details" : "div", { class: `part ${name}` },
      el(name === "done" ? "summary" : "h2", null, `${title} `, count), chip, rows, more);
    if (name === "done" && localStorage.getItem("set done") !== "folded") box.open = true;
    parts[name] = { box, count, rows, more, chip };
    where.append(box);
  }
  where.append(unpriced);
  where.addEventListener("pointermove", () => { held = true; });
  where.addEventListener("pointerleave", () => { held = false; arrange(true); });
  board.changed.add(() => arrange(false));
}

/** @param {string} id */
export function select(id) {
  made.get(selected)?.classList.remove("selected");
  made.get(selected)?.removeAttribute("aria-current");
  selected = id;
  made.get(id)?.classList.add("selected");
  made.get(id)?.setAttribute("aria-current", "true");
}

export const selectedId = () => selected;
/** All rows in the order in which they are shown. @returns {string[]} */
export const order = () => Object.keys(TITLES).flatMap((name) => entries(name).filter((key) => made.has(key)));
/** @param {string} id */
export const reveal = (id) => made.get(id)?.scrollIntoView({ block: "nearest" });

/** @param {any} row what the fleet is fair between: its project, or its repository */
const projectOf = (row) => row.project || String(row.place ?? "").replace(/^.*\/(?=.)/, "") || "no project";

/** The orders of a goal have its name as their project. */
async function readGoals() {
  if (grouping !== "goal" || Date.now() - goalsRead < GOALS_EVERY) return;
  goalsRead = Date.now();
  try { for (const goal of await get("/goals")) goals.set(goal.id, oneLine(goal.goal)); } catch { return; }  // the bar says that the server is away
  arrange(false);
}

/** @param {any} row the heading that it is under */
const groupOf = (row) => grouping === "goal" ? goals.get(row.project) ?? "no goal" : grouping === "project" ? projectOf(row) : oneLine(row[grouping]) || `no ${grouping}`;

/** Every word of the filter is in what the row says; NAME:WORD is in what it says of that. @param {any} row */
function fits(row) {
  /** @type {Record<string, string>} */
  const parts = { title: row.title, project: projectOf(row), agent: row.agent, node: row.node, state: stateOf(row)[1], label: (row.labels ?? []).join(" "), priority: String(row.priority ?? 5), id: row.id };
  const said = Object.values(parts).join(" ").toLowerCase();
  return filter.value.toLowerCase().split(/\s+/).every((/** @type {string} */ word) => {
    const [name, ...rest] = word.split(":");
    return name in parts && rest.length ? String(parts[name] ?? "").toLowerCase().includes(rest.join(":")) : said.includes(word);
  });
}

/** The rows of a section, and before those of each group its heading where there is more than one. @param {string} name @returns {string[]} */
function entries(name) {
  const ids = (board.sections[name] ?? []).filter((id) => fits(board.rows.get(id) ?? {}));
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  if (grouping === "none" || KEPT.includes(name)) return ids;
  for (const id of ids) { const of = groupOf(board.rows.get(id)); const its = groups.get(of); if (its) its.push(id); else groups.set(of, [id]); }
  return groups.size < 2 ? ids : [...groups].flatMap(([group, its]) => [headOf(name, group, its.length), ...its]);
}

/** @param {string} name @param {string} project @param {number} count */
function headOf(name, project, count) {
  const key = `${name} ${project}`;
  const head = heads.get(key) ?? el("h3", { class: "group", "data-id": key }, el("span", null, project), " ", el("b", { class: "count" }));
  heads.set(key, head);
  setText(/** @type {Element} */ (head.lastElementChild), String(count));
  return key;
}

/** Rows do not move under the pointer or the focus: what is new waits behind a chip. @param {boolean} now */
function arrange(now) {
  readGoals();
  const focus = document.activeElement;
  for (const [name, part] of Object.entries(parts)) {
    const all = board.sections[name] ?? [], wanted = entries(name);
    const total = all.length + (board.more[name] ?? 0), fitting = all.filter((id) => wanted.includes(id)).length;
    setText(part.count, !total ? "" : filter.value ? `${fitting} of ${total}` : String(total));
    for (const id of all) update(id);
    const shown = [...part.rows.children].map((/** @type {any} */ row) => row.dataset.id).filter(Boolean);
    const same = shown.length === wanted.length && shown.every((id, place) => id === wanted[place]);
    if (!same && !now && shown.length && (held || part.rows.contains(focus))) {
      const fresh = wanted.filter((id) => !shown.includes(id) && made.has(id)).length;
      const gone = shown.filter((id) => !wanted.includes(id));
      for (const id of gone) made.get(id)?.classList.add("gone");
      part.chip.hidden = !fresh;
      setText(part.chip, `${fresh} new`);
      continue;
    }
    part.chip.hidden = true;
    if (!same) place(part.rows, wanted);
    for (const id of wanted) made.get(id)?.classList.remove("gone");
    if (!wanted.length && board.known) { if (part.rows.firstChild?.dataset?.id || !part.rows.firstChild) fill(part.rows, el("p", { class: "empty" })); setText(part.rows.firstChild, all.length ? "No order matches the filter." : NOTHING[/** @type {keyof typeof NOTHING} */ (name)]); }
    part.more.hidden = !board.more[name];
    if (board.more[name]) setText(part.more, `${board.more[name]} more: see Orders`);
  }
  const without = [...board.rows.values()].filter((row) => row.tokens && !hasPrice(row)).length;
  unpriced.hidden = !without;
  setText(unpriced, `Price unknown: ${without} of these orders, their cost is not shown.`);
  if (focus instanceof HTMLElement && focus.isConnected && document.activeElement !== focus) focus.focus({ preventScroll: true });
  for (const id of made.keys()) if (!board.rows.has(id)) { made.get(id)?.remove(); made.delete(id); }
}

/** Put these rows in this order with as few moves as may be. @param {HTMLElement} where @param {string[]} ids */
function place(where, ids) {
  let next = where.firstChild;
  for (const id of ids) {
    const row = /** @type {HTMLElement} */ (made.get(id) ?? heads.get(id));
    if (row === next) next = next.nextSibling;
    else where.insertBefore(row, next);
  }
  while (next) { const after = next.nextSibling; next.remove(); next = after; }
}

/** @param {string} id */
function update(id) {
  const row = board.rows.get(id);
  if (!row) return;
  let node = /** @type {any} */ (made.get(id));
  if (!node) {
    node = el("a", { class: "row", href: `#/order/${id}`, "data-id": id },
      el("span", { class: "line" }, el("span", { class: "state" }), el("span", { class: "title" }), el("age-of", { class: "age" })),
      el("span", { class: "line small" }, el("span", { class: "now" }), el("age-of", { class: "since", as: "busy" }), el("span", { class: "about" })));
    made.set(id, node);
    if (id === selected) select(id);
  }
  const [first, second] = node.children;
  const key = stateOf(row).join();
  if (node.dataset.state !== key) { fill(first.children[0], badge(row)); node.dataset.state = key; }
  setText(first.children[1], row.title);
  first.children[2].setAttribute("at", String(row.changed));
  first.children[2].setAttribute("as", told(row));
  setText(second.children[0], ENDED.includes(row.state) ? [row.state === "done" ? "" : nowOf(row), endOf(row)].filter(Boolean).join(" · ") : nowOf(row));
  if (row.since) second.children[1].setAttribute("at", String(row.since));
  second.children[1].hidden = !row.since || Boolean(row.ask);  // how long it asks is said above
  setText(second.children[2], [row.agent, row.node, used(row)].filter(Boolean).join(" · "));
  node.classList.toggle("striped", row.verdict === "lost" || board.gone.includes(row.node) && !ENDED.includes(row.state));
  node.classList.toggle("answered", Boolean(row.answered));
}

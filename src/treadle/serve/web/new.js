// Giving an order: what there is to choose from comes from the nodes, from earlier orders and from the repository itself.

import { get, link, post } from "./server.js";
import { board, drafts } from "./store.js";
import { el, fill, oneLine } from "./text.js";
import { stateOf } from "./words.js";

const MODES = { suggest: "suggest: asks before every change", "auto-edit": "auto-edit: edits files, asks before commands", "full-auto": "full-auto: asks nothing" };
const IF_FAILED = { block: "this order waits for a person", skip: "this order is skipped", run: "this order runs anyway" };
const LENGTHS = { m: 60, h: 3600, d: 86400 };
/** What is worth keeping for the next order. */
const KEPT = ["root", "agent", "model", "mode"];

/** @typedef {{node: HTMLElement, value: () => string, offer: (names: string[] | Record<string, string>, empty: string) => void}} Field */

/** Choose one of what is known, or write another. @param {string} name @param {string} words @param {string} hint @param {() => void} [changed] @returns {Field} */
function picker(name, words, hint, changed = () => {}) {
  const select = el("select", { name, "aria-label": words });
  const other = el("input", { type: "text", placeholder: hint, "aria-label": `${words}: another`, hidden: true });
  select.addEventListener("change", () => { other.hidden = select.value !== "+"; if (!other.hidden) other.focus(); changed(); });
  other.addEventListener("change", changed);
  return {
    node: el("div", { class: "field" }, el("label", null, words, select), other),
    value: () => (select.value === "+" ? other.value.trim() : select.value),
    offer(names, empty) {
      const writes = select.value === "+", before = this.value() || (writes ? "" : localStorage.getItem(`new ${name}`)) || "", known = Array.isArray(names) ? Object.fromEntries(names.map((each) => [each, each])) : names;
      fill(select, el("option", { value: "" }, empty), Object.entries(known).map(([value, text]) => el("option", { value }, oneLine(text))), hint ? el("option", { value: "+" }, "another…") : null);
      select.value = writes ? "+" : before in known ? before : before && hint ? "+" : "";
      if (select.value === "+") other.value = before;
      other.hidden = select.value !== "+";
    },
  };
}

/** @param {string} words @param {Record<string, any>} [properties] @returns {Field & {input: any}} */
function writing(words, properties = {}) {
  const input = el("input", { type: "text", ...properties });
  return { input, node: el("label", null, words, input), value: () => input.value.trim(), offer: (_, empty) => { input.placeholder = empty; } };
}

/** "6h" is a number of seconds; anything else is a crontab expression, which the server reads. @param {string} text */
function repeated(text) {
  const found = /^(\d+(?:\.\d+)?)\s*([mhd])$/.exec(text);
  if (found) return { every: Number(found[1]) * LENGTHS[/** @type {keyof typeof LENGTHS} */ (found[2])] };
  return { cron: text, zone: Intl.DateTimeFormat().resolvedOptions().timeZone };
}

/** @param {HTMLElement} where */
export function show(where) {
  if (link.right !== "all") return void fill(where, el("p", { class: "watching" }, "This device may not submit orders."));
  const task = el("textarea", { rows: "6", required: true });
  task.value = drafts.get("new");
  task.addEventListener("input", () => drafts.set("new", task.value));
  /** @type {any} */
  let choices = { agents: [], places: [], projects: [], labels: [] };
  /** @type {any} */
  let repository = { branches: [], project: {}, templates: {}, ignored: [] };
  const note = el("p", { class: "small", role: "status" }), problem = el("p", { class: "problem", role: "alert" });
  /** @type {Record<string, Field>} */
  const fields = {
    root: picker("root", "Repository or directory, on the node", "/src/shop", () => void look()),
    template: picker("template", "Template", "", () => offer()),
    agent: picker("agent", "Agent", "such as claude", () => offer()),
    model: picker("model", "Model", "the name, as the agent knows it"),
    mode: picker("mode", "Permission mode", ""),
    verify: writing("Check that must pass"),
    land: picker("land", "Land automatically on", "a branch, or REMOTE:BRANCH"),
    base: picker("base", "Start from", "a branch or commit"),
    project: picker("project", "Project", "a new name"),
    label: picker("label", "Node label", ""),
    title: writing("Title", { placeholder: "the first line of the task" }),
    claims: writing("Claimed files", { placeholder: "src/**, tests/**" }),
    priority: writing("Priority (0 to 9, highest first)", { type: "number", min: "0", max: "9", placeholder: "5" }),
    attempts: writing("Maximum attempts", { type: "number", min: "1", max: "20", placeholder: "3" }),
    usd: writing("Cost limit (USD)", { type: "number", min: "0", step: "any" }),
    tokens: writing("Token limit", { type: "number", min: "1" }),
    not_before: writing("Not before", { type: "datetime-local" }),
    again: writing("Repeat", { placeholder: "6h, or 30 6 * * mon-fri" }),
    if_failed: picker("if_failed", "If one of those fails", ""),
  };
  const after = el("fieldset", { class: "after" });

  /** What is said of a field that is left empty: the template, the project, or the order's own default. @param {string} name @param {string} otherwise */
  const told = (name, otherwise) => { const from = repository.templates[fields.template.value()] ?? repository.project; return from[name] === undefined ? otherwise : `project setting: ${from[name]}`; };

  function offer() {
    fields.root.offer(choices.places, "none");
    fields.template.offer(Object.keys(repository.templates), "none");
    fields.template.node.hidden = !Object.keys(repository.templates).length;
    fields.agent.offer(Object.fromEntries(choices.agents.map((/** @type {any} */ each) => [each.name, `${each.name} (${each.nodes.join(", ")})`])), told("agent", "native (Treadle's own)"));
    const agent = fields.agent.value() || (repository.templates[fields.template.value()] ?? repository.project).agent || "native";
    fields.model.offer(choices.agents.find((/** @type {any} */ each) => each.name === agent)?.models ?? [], told("model", "the agent's default"));
    fields.mode.offer(MODES, told("mode", "auto-edit"));
    fields.verify.offer([], told("verify", "make test"));
    fields.land.offer(repository.branches, told("land", "nothing: a person reviews it"));
    fields.base.offer(repository.branches, repository.head ? `checked-out branch: ${repository.head}` : "current branch");
    fields.project.offer(choices.projects, told("project", "none"));
    fields.label.offer(choices.labels, "any");
    fields.if_failed.offer(IF_FAILED, "this order waits for a person");
    fill(note, repository.ignored.join(" "));
  }

  /** What the repository that is chosen says. */
  async function look() {
    const root = fields.root.value();
    repository = { branches: [], project: {}, templates: {}, ignored: [] };
    try { if (root) repository = await get(`/repository?root=${encodeURIComponent(root)}`); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
    if (root === fields.root.value()) offer();
  }

  function offerOrders() {
    const open = ["needs", "working", "waiting"].flatMap((name) => board.sections[name] ?? []).map((id) => board.rows.get(id)).filter((row) => row && !["done", "failed", "cancelled", "skipped"].includes(row.state));
    const chosen = afterIds();
    fill(after, el("legend", null, "Start after"), open.length ? null : el("p", { class: "small" }, "No order is open."), open.map((row) => { const box = el("input", { type: "checkbox", value: row?.id }); box.checked = chosen.includes(row?.id); return el("label", { class: "line" }, box, el("span", null, `${oneLine(row?.title)} (${stateOf(row)[1]})`)); }));
  }
  const afterIds = () => [...after.querySelectorAll("input:checked")].map((each) => /** @type {HTMLInputElement} */ (each).value);

  function body() {
    /** @type {Record<string, any>} */
    const made = { task: task.value }, limits = {};
    const value = (/** @type {string} */ name) => fields[name].value();
    for (const name of ["root", "template", "agent", "model", "mode", "verify", "land", "base", "project", "title"]) if (value(name)) made[name] = value(name);
    for (const name of ["priority", "attempts"]) if (value(name)) made[name] = Number(value(name));
    for (const name of ["usd", "tokens"]) if (value(name)) Object.assign(limits, { [name]: Number(value(name)) });
    if (Object.keys(limits).length) made.limits = limits;
    if (value("claims")) made.claims = value("claims").split(",").map((each) => each.trim()).filter(Boolean);
    if (value("label")) made.labels = [value("label")];
    if (value("not_before")) made.not_before = new Date(value("not_before")).getTime() / 1000;
    if (value("again")) Object.assign(made, repeated(value("again")));
    if (afterIds().length) Object.assign(made, { after: afterIds() }, value("if_failed") ? { if_failed: value("if_failed") } : {});
    return made;
  }

  // The same key for the same try: a request whose answer was lost gives no second order.
  const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  const give = async (/** @type {Event} */ event) => {
    event.preventDefault();
    for (const name of KEPT) localStorage.setItem(`new ${name}`, fields[name].value());
    const wanted = body();
    try {
      const given = await post("/orders", wanted, { "idempotency-key": `page ${key} ${JSON.stringify(wanted)}` });
      drafts.set("new", "");
      location.hash = `#/order/${given.id}`;
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  };
  const nodes = (/** @type {string[]} */ ...names) => names.map((name) => fields[name].node);
  const more = el("details", { class: "more-fields" }, el("summary", null, "More: landing, dependencies, limits, schedule"),
    el("div", { class: "columns" }, nodes("land", "base", "project", "title", "claims", "label", "priority", "attempts", "usd", "tokens", "not_before", "again")), after, fields.if_failed.node);
  more.addEventListener("toggle", () => { if (more.open) offerOrders(); });
  fill(where, el("h1", null, "New order"), el("form", { class: "form", onsubmit: give }, el("label", null, "Task", task), nodes("root", "template"), el("div", { class: "columns" }, nodes("agent", "model", "mode", "verify")), note, more, problem, el("button", { class: "main" }, "Submit")));
  offer();
  get("/choices").then(async (/** @type {any} */ found) => { choices = found; offer(); await look(); }, (/** @type {Error} */ error) => fill(problem, error.message));
  task.focus();
}

// All orders as a table that is scrolled by windows: filters in the address, views kept by name, actions on many.

import { post } from "./api.js";
import { follow, link } from "./socket.js";
import { keep, setting } from "./store.js";
import { el, fill, oneLine, setText } from "./text.js";
import { badge, cost, nowOf } from "./words.js";

const HIGH = matchMedia("(max-width: 700px)").matches ? 45 : 36, SLACK = 10;
const FACETS = ["state", "agent", "project", "node"];

/** @param {HTMLElement} where @param {{query: URLSearchParams}} address */
export function show(where, { query }) {
  /** @type {Set<string>} */
  const chosen = new Set();
  let total = 0, offset = 0, asked = "";
  /** @type {any[]} */
  let rows = [];
  /** @type {any[]} */
  const pool = [];
  let stop = () => {};
  const facets = el("aside", { class: "facets", "aria-label": "Filters" }), count = el("span", { class: "small", role: "status" }), chips = el("span", { class: "bar" });
  const text = el("input", { type: "search", placeholder: "title or id", "aria-label": "Filter by title or id" });
  text.value = query.get("text") ?? "";
  text.addEventListener("input", () => narrow("text", text.value ? [text.value] : []));
  const many = el("div", { class: "bar" }), inner = el("div"), port = el("div", { class: "viewport", tabindex: "0", role: "region", "aria-label": "Orders" }, inner);
  const head = el("div", { class: "cells head" }, ["", "State", "Title", "Now", "Agent", "Repository", "Node", "Age", "Used"].map((name) => el("span", null, name)));
  fill(where, el("div", { class: "table" }, facets, el("div", { class: "grid" }, el("div", { class: "bar" }, text, views(), count, chips), many, head, port)));
  inner.style.position = "relative";

  /** @param {string} name @param {string[]} values */
  function narrow(name, values) {
    query.delete(name);
    for (const value of values) query.append(name, value);
    history.replaceState(null, "", `#/orders${query.size ? `?${query}` : ""}`);
    port.scrollTop = 0;
    ask();
  }

  const wanted = () => ({ states: query.getAll("state"), agent: query.get("agent") ?? "", project: query.get("project") ?? "", node: query.get("node") ?? "", label: query.get("label") ?? "", place: query.get("place") ?? "", text: query.get("text") ?? "", needs: query.get("needs") ?? "" });

  function ask() {
    const shown = Math.ceil(port.clientHeight / HIGH) + 2 * SLACK;
    offset = Math.max(0, Math.floor(port.scrollTop / HIGH) - SLACK);
    const params = { wanted: wanted(), offset, count: Math.min(200, shown) };
    const key = JSON.stringify(params);
    if (key === asked) return;
    asked = key;
    stop();
    stop = follow("table", take, params);
  }

  /** @param {any} message */
  function take(message) {
    if (message.error) { setText(count, message.error.message); return; }
    if (message.offset !== offset) return;
    rows = message.rows;
    total = message.total;
    setText(count, `${total.toLocaleString()} orders`);
    inner.style.height = `${Math.min(total * HIGH, 30_000_000)}px`;
    showFacets(message.facets);
    showChips();
    draw();
  }

  function draw() {
    rows.forEach((row, place) => {
      const cells = pool[place] ??= cellsOf();
      cells.style.transform = `translateY(${(offset + place) * HIGH}px)`;
      if (!cells.isConnected) inner.append(cells);
      const mark = `${row.id} ${row.revision} ${row.now ?? ""} ${chosen.has(row.id)}`;
      if (cells.dataset.mark === mark) return;
      cells.dataset.mark = mark;
      const [box, state, title, now, agent, place_, node, age, used] = cells.children;
      box.firstChild.checked = chosen.has(row.id);
      box.firstChild.dataset.id = row.id;
      fill(state, badge(row));
      title.setAttribute("href", `#/order/${row.id}`);
      setText(title, row.title); setText(now, nowOf(row)); setText(agent, row.agent); setText(place_, row.place); setText(node, row.node);
      age.setAttribute("at", String(row.changed)); setText(used, cost(row));
    });
    for (const spare of pool.splice(rows.length)) spare.remove();
    if (!total) { if (!inner.querySelector(".empty")) inner.append(el("p", { class: "empty" }, "No order fits these filters.")); } else inner.querySelector(".empty")?.remove();
  }

  function cellsOf() {
    const box = el("input", { type: "checkbox", "aria-label": "Choose", onchange: () => { if (box.checked) chosen.add(box.dataset.id); else chosen.delete(box.dataset.id); showMany(); } });
    const title = el("a", { class: "title" });
    const open = (/** @type {Event} */ event) => { if (!/** @type {HTMLElement} */ (event.target).closest("label, a")) title.click(); };
    return el("div", { class: "cells", onclick: open }, el("label", null, box), el("span"), title, el("span"), el("span"), el("span"), el("span"), el("age-of"), el("span"));
  }

  /** @param {Record<string, Record<string, number>>} given */
  function showFacets(given) {
    const mark = JSON.stringify([given, [...query]]);
    if (facets.dataset.mark === mark || facets.contains(document.activeElement) && facets.dataset.mark) { facets.dataset.late = "1"; if (facets.dataset.mark === mark) return; }
    facets.dataset.mark = mark;
    const focus = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.facet;
    fill(facets, FACETS.map((name) => el("section", null, el("h2", null, name), Object.entries(given[name] ?? {}).map(([value, number]) => {
      const box = el("input", { type: "checkbox", "data-facet": `${name} ${value}`, onchange: () => {
        const now = new Set(query.getAll(name));
        if (box.checked) now.add(value); else now.delete(value);
        narrow(name, name === "state" ? [...now] : box.checked ? [value] : []);
      } });
      box.checked = query.getAll(name).includes(value);
      return el("label", null, box, oneLine(value) || "(none)", el("b", null, number.toLocaleString()));
    }))));
    if (focus) /** @type {HTMLElement | null} */ ([...facets.querySelectorAll("input")].find((box) => /** @type {HTMLElement} */ (box).dataset.facet === focus))?.focus();
  }

  function showChips() {
    fill(chips, [...query].map(([name, value]) => el("button", { type: "button", class: "tag", onclick: () => { if (name === "text") text.value = ""; narrow(name, query.getAll(name).filter((each) => each !== value)); } }, `${name}: ${value} ✕`)));
  }

  function views() {
    /** @type {Record<string, string>} */
    const saved = JSON.parse(setting("views", "{}"));
    const list = el("select", { "aria-label": "Saved views", onchange: () => {
      if (list.value === "+") { const name = prompt("Keep these filters as"); if (name) { saved[name] = String(query); keep("views", JSON.stringify(saved)); location.reload(); } } else if (list.value) location.hash = `#/orders?${saved[list.value]}`;
    } }, el("option", { value: "" }, "Views"), Object.keys(saved).map((name) => el("option", { value: name }, name)), el("option", { value: "+" }, "Keep this view…"));
    return list;
  }

  function showMany() {
    if (!chosen.size || link.right !== "all") return many.replaceChildren();
    const say = el("p", { class: "problem", role: "alert" });
    /** What would happen is shown before it does. @param {string} words @param {(id: string) => Promise<any>} work */
    const act = (words, work) => el("button", { type: "button", onclick: () => {
      const names = [...chosen];
      fill(many, el("div", { class: "card" }, el("h2", null, `${words} these ${names.length} orders?`), el("ul", null, names.slice(0, 50).map((id) => el("li", null, el("code", null, id), " ", rows.find((row) => row.id === id)?.title ?? ""))),
        el("button", { type: "button", class: "main", onclick: async () => {
          let done = 0;
          for (const id of names) { try { await work(id); done += 1; chosen.delete(id); } catch (error) { fill(say, `${id}: ${/** @type {Error} */ (error).message}`); } }
          fill(many, el("p", null, `${words}: ${done} of ${names.length} done.`), say);
        } }, `${words} ${names.length}`), el("button", { type: "button", class: "quiet", onclick: showMany }, "Leave it")));
    } }, words);
    fill(many, `${chosen.size} chosen: `, act("Cancel", (id) => post(`/orders/${id}/cancel`, {})), act("Retry", (id) => post(`/orders/${id}/retry`)), act("Mark as seen", (id) => post(`/orders/${id}/reviewed`)), act("Merge", async (id) => post("/merges", { orders: [id] })), el("button", { type: "button", class: "quiet", onclick: () => { chosen.clear(); draw(); showMany(); } }, "None"));
  }

  let waiting = 0;
  port.addEventListener("scroll", () => { if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; ask(); }); });
  const size = new ResizeObserver(() => ask());
  size.observe(port);
  ask();
  return () => { stop(); size.disconnect(); };
}

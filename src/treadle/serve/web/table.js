// All orders as a table that is scrolled by windows: filters in the address, views kept by name, actions on many.

import { follow, link, post } from "./server.js";
import { keep, setting } from "./store.js";
import { el, fill, oneLine, plain, setText } from "./text.js";
import { ENDED, endOf, nowOf, stateOf, used } from "./words.js";

const NARROW = matchMedia("(max-width: 700px)");
const HIGH = NARROW.matches ? 45 : 36;
const WINDOW = 200, MARGIN = 30;
const PAUSE = 100;  // milliseconds between two windows that are asked for while someone scrolls
const FACETS = { needs: "Needs you", state: "State", agent: "Agent", project: "Project", node: "Node" };
const NEEDS = { asks: "asks", failed: "failed", review: "to review" };

/** @param {HTMLElement} where @param {{query: URLSearchParams}} address */
export function show(where, { query }) {
  /** @type {Set<string>} */
  const chosen = new Set();
  // The rows from `offset` on are known. They are shown by a few lines that are used again and again, so that
  // scrolling makes no element, reads no size and asks the server only when it leaves what is known.
  let total = 0, offset = 0, asked = "", top = 0, tall = 0, timer = 0;
  /** @type {any[]} */
  let rows = [];
  /** @type {Line[]} */
  let lines = [];
  let stop = () => {};
  const facets = el("div"), side = el("aside", { class: "facets", "aria-label": "Filters" }, el("details", { open: !NARROW.matches }, el("summary", null, "Filters"), facets)), count = el("span", { class: "small", role: "status" }), chips = el("span", { class: "bar" });
  const text = el("input", { type: "search", placeholder: "title or id", "aria-label": "Filter by title or id" });
  text.value = query.get("text") ?? "";
  text.addEventListener("input", () => narrow("text", text.value ? [text.value] : []));
  const many = el("div", { class: "bar" }), inner = el("div", { class: "inner" }), empty = el("p", { class: "empty", hidden: true }, "No order matches these filters.");
  const port = el("div", { class: "viewport", tabindex: "0", role: "region", "aria-label": "Orders" }, inner, empty);
  const head = el("div", { class: "cells head" }, ["", "State", "Title", "Now", "Agent", "Repository", "Node", "Changed", "Used"].map((name) => el("span", null, name)));
  fill(where, el("h1", { class: "unseen" }, "Orders"), el("div", { class: "table" }, side, el("div", { class: "grid" }, el("div", { class: "bar" }, text, views(), count, el("span", { class: "small" }, "$ only where the price is known"), chips), many, head, port)));

  /** @param {string} name @param {string[]} values */
  function narrow(name, values) {
    query.delete(name);
    for (const value of values) query.append(name, value);
    history.replaceState(null, "", `#/orders${query.size ? `?${query}` : ""}`);
    port.scrollTop = top = 0;
    ask();
  }

  const wanted = () => ({ states: query.getAll("state"), agent: query.get("agent") ?? "", project: query.get("project") ?? "", node: query.get("node") ?? "", label: query.get("label") ?? "", place: query.get("place") ?? "", text: query.get("text") ?? "", needs: query.get("needs") ?? "" });
  const first = () => Math.max(0, Math.min(Math.floor(top / HIGH) - 1, total - lines.length));

  /** Follow the window of rows around what is shown. */
  function ask() {
    timer = 0;
    const params = { wanted: wanted(), offset: Math.max(0, Math.floor(top / HIGH) - Math.floor(WINDOW / 2)), count: WINDOW };
    const key = JSON.stringify(params);
    if (key === asked) return;
    asked = key;
    stop = follow("table", take, params);
  }

  /** @param {any} message */
  function take(message) {
    if (message.error) { setText(count, message.error.message); return; }
    ({ rows, offset, total } = message);
    setText(count, `${total.toLocaleString()} orders`);
    inner.style.height = `${Math.min(total * HIGH, 17_000_000)}px`;
    empty.hidden = total > 0;
    showFacets(message.facets);
    showChips();
    fit();
  }

  /** As many lines as there is room for, or orders. */
  function fit() {
    const wanted = Math.min(total, Math.ceil(tall / HIGH) + 3);
    if (wanted !== lines.length) {
      for (const spare of lines.splice(wanted)) spare.node.remove();
      while (lines.length < wanted) lines.push(new Line(chosen, showMany));
      for (const line of lines) line.number = -1;
      inner.append(...lines.filter((line) => !line.node.isConnected).map((line) => line.node));
    }
    draw();
  }

  function draw() {
    const from = first(), many = lines.length;
    for (let number = from; number < from + many; number += 1) lines[number % many].show(number, rows[number - offset]);
    const before = from < offset + MARGIN && offset > 0, after = from + many > offset + rows.length - MARGIN && offset + rows.length < total;
    if ((before || after) && !timer) timer = setTimeout(ask, PAUSE);
  }

  /** @param {Record<string, Record<string, number>>} given */
  function showFacets(given) {
    const mark = JSON.stringify([given, [...query]]);
    if (facets.dataset.mark === mark || facets.contains(document.activeElement) && facets.dataset.mark) { facets.dataset.late = "1"; if (facets.dataset.mark === mark) return; }
    facets.dataset.mark = mark;
    const focus = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.facet;
    fill(facets, Object.entries(FACETS).map(([name, title]) => el("section", null, el("h2", null, title), Object.entries(given[name] ?? {}).filter(([value]) => value || name !== "needs").map(([value, number]) => {
      const box = el("input", { type: "checkbox", "data-facet": `${name} ${value}`, onchange: () => {
        const now = new Set(query.getAll(name));
        if (box.checked) now.add(value); else now.delete(value);
        narrow(name, name === "state" ? [...now] : box.checked ? [value] : []);
      } });
      box.checked = query.getAll(name).includes(value);
      return el("label", null, box, name === "needs" ? NEEDS[/** @type {keyof typeof NEEDS} */ (value)] ?? value : oneLine(value) || "(none)", el("b", null, number.toLocaleString()));
    }))));
    if (focus) /** @type {HTMLElement | null} */ ([...facets.querySelectorAll("input")].find((box) => /** @type {HTMLElement} */ (box).dataset.facet === focus))?.focus();
  }

  function showChips() {
    if (chips.dataset.mark === String(query)) return;
    chips.dataset.mark = String(query);
    fill(chips, [...query].map(([name, value]) => el("button", { type: "button", class: "tag", onclick: () => { if (name === "text") text.value = ""; narrow(name, query.getAll(name).filter((each) => each !== value)); } }, `${name}: ${value} ✕`)));
  }

  function views() {
    /** @type {Record<string, string>} */
    const saved = JSON.parse(setting("views", "{}"));
    const list = el("select", { "aria-label": "Saved views", onchange: () => {
      if (list.value === "+") { const name = prompt("Name of this view"); if (name) { saved[name] = String(query); keep("views", JSON.stringify(saved)); location.reload(); } } else if (list.value) location.hash = `#/orders?${saved[list.value]}`;
    } }, el("option", { value: "" }, "Views"), Object.keys(saved).map((name) => el("option", { value: name }, name)), el("option", { value: "+" }, "Save this view…"));
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
        } }, `${words} ${names.length}`), el("button", { type: "button", class: "quiet", onclick: showMany }, "Go back")));
    } }, words);
    fill(many, `${chosen.size} chosen: `, act("Cancel", (id) => post(`/orders/${id}/cancel`, {})), act("Retry", (id) => post(`/orders/${id}/retry`)), act("Mark as seen", (id) => post(`/orders/${id}/reviewed`)), act("Land", (id) => post(`/orders/${id}/land`, {})), el("button", { type: "button", class: "quiet", onclick: () => { chosen.clear(); for (const line of lines) line.number = -1; draw(); showMany(); } }, "None"));
  }

  let waiting = 0;
  port.addEventListener("scroll", () => { if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; top = port.scrollTop; draw(); }); }, { passive: true });
  const size = new ResizeObserver(([entry]) => { tall = entry.contentRect.height; fit(); });
  size.observe(port);
  ask();
  return () => { clearTimeout(timer); stop(); size.disconnect(); };
}

/** One line of the table, which shows one row after another. */
class Line {
  /** @param {Set<string>} chosen @param {() => void} changed */
  constructor(chosen, changed) {
    this.number = -1;
    this.mark = "";
    this.chosen = chosen;
    this.box = el("input", { type: "checkbox", "aria-label": "Choose", onchange: () => { if (this.box.checked) chosen.add(this.id); else chosen.delete(this.id); changed(); } });
    this.id = "";
    this.title = el("a", { class: "title" });
    this.state = el("span", { class: "badge" });
    this.age = el("age-of", { as: "ago" });
    const cells = [this.state, this.title, el("span"), el("span"), el("span"), el("span")], used = el("span");
    const open = (/** @type {Event} */ event) => { if (!/** @type {HTMLElement} */ (event.target).closest("label, a")) this.title.click(); };
    this.node = el("div", { class: "cells", onclick: open }, el("label", null, this.box), cells, this.age, used);
    this.texts = [...cells, used].map((cell) => cell.appendChild(document.createTextNode("")));
  }

  /** @param {number} number @param {any} row what is known of it; nothing while it is on its way */
  show(number, row) {
    if (number !== this.number) { this.number = number; this.node.style.transform = `translateY(${number * HIGH}px)`; }
    const mark = row ? `${row.id} ${row.revision} ${row.now ?? ""} ${this.chosen.has(row.id)}` : "";
    if (mark === this.mark) return;
    this.mark = mark;
    this.id = row?.id ?? "";
    this.box.checked = this.chosen.has(this.id);
    const [shape, word, kind] = row ? stateOf(row) : ["", "", "calm"];
    const said = row ? [`${shape} ${word}`, row.title, ENDED.includes(row.state) ? [endOf(row), row.state === "done" ? "" : nowOf(row)].filter(Boolean).join(" · ") : nowOf(row), row.agent, String(row.place ?? "").replace(/^.*\/(?=.)/, ""), row.node, used(row)] : [];
    this.texts.forEach((text, place) => { const now = plain(said[place]); if (text.data !== now) text.data = now; });
    this.state.className = `badge ${kind}`;
    if (row) { this.title.setAttribute("href", `#/order/${row.id}`); this.age.setAttribute("at", String(row.changed)); }
  }
}

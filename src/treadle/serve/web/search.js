// One field for everything: places of the page, and orders by their title or id.

import { get } from "./server.js";
import { el, fill, oneLine } from "./text.js";

const PLACES = [["Board", "#/"], ["Orders", "#/orders"], ["Failed orders", "#/orders?state=failed"], ["Goals", "#/goals"], ["Terminals", "#/terminals"], ["Nodes", "#/nodes"], ["Trains", "#/trains"], ["Money", "#/money"], ["Claims", "#/claims"], ["New order", "#/new"], ["Settings and keys", "#/settings"]];

/** @param {HTMLElement} where @param {{query: URLSearchParams}} address */
export function show(where, { query }) {
  const field = el("input", { type: "search", placeholder: "Order title or id, or a page", "aria-label": "Search" });
  field.value = query.get("q") ?? "";
  const list = el("ul", { class: "hits" }), count = el("p", { class: "small", role: "status" });
  fill(where, el("h1", { class: "unseen" }, "Search"), field, count, list);
  let timer = 0, asked = 0;
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 120); });
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && timer) look(); // the first of what fits now, not of what did before the last letters
    const links = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("a")]);
    if (event.key === "Enter" && links[0]) { event.preventDefault(); links[0].click(); }
    if (event.key === "ArrowDown" && links[0]) { event.preventDefault(); links[0].focus(); }
  });
  list.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const links = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("a")]), place = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "ArrowDown") { event.preventDefault(); links[place + 1]?.focus(); }
    if (event.key === "ArrowUp") { event.preventDefault(); (links[place - 1] ?? field).focus(); }
  });

  async function look() {
    clearTimeout(timer);
    timer = 0;
    const words = field.value.trim(), mine = asked += 1;
    history.replaceState(null, "", `#/search${words ? `?q=${encodeURIComponent(words)}` : ""}`);
    const low = words.toLowerCase();
    const places = PLACES.filter(([name]) => !words || name.toLowerCase().includes(low)).map(([name, to]) => el("li", null, el("a", { href: to }, name)));
    fill(list, places);
    if (!words) return fill(count);
    try {
      const found = await get(`/orders?text=${encodeURIComponent(words)}&count=25`);
      if (mine !== asked) return;
      fill(count, found.total ? `${found.total} orders` : "No order matches.");
      list.append(...found.orders.map((/** @type {any} */ row) => el("li", null, el("a", { href: `#/order/${row.id}` }, `${oneLine(row.title)} `, el("span", { class: "small" }, `${row.state} · ${row.id}`)))));
    } catch (error) { if (mine === asked) fill(count, /** @type {Error} */ (error).message); }
  }
  field.focus();
  look();
  return () => clearTimeout(timer);
}

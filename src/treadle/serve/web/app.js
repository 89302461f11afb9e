// The page: signs in, follows the board, shows what the address names, hears the keys.

import { answerByKey, openMore } from "./ask.js";
import { order, reveal, select, selectedId, showList } from "./list.js";
import { showOrder } from "./order.js";
import * as search from "./search.js";
import { connect, follow, link, lostSince, post, signIn } from "./server.js";
import { board, setting, takeBoard } from "./store.js";
import { announce, complain, copyable, el, fill, setText } from "./text.js";
import { clock, nowOf, short, span } from "./words.js";

const $ = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const view = $("view");
let leave = () => {};
let shownAt = "", shows = 0;

// What the address says...

/** @type {Record<string, () => Promise<any>>} */
const VIEWS = {
  orders: () => import("./table.js"),
  terminals: () => import("./terminals.js"),
  terminal: () => import("./terminals.js"),
  nodes: () => import("./places.js"),
  money: () => import("./places.js"),
  claims: () => import("./places.js"),
  trains: () => import("./trains.js"),
  goals: () => import("./goals.js"),
  search: async () => search,  // there at once: what is typed after its key is meant for it
  new: () => import("./new.js"),
  settings: () => import("./settings.js"),
};

/** The tab that a view without one of its own belongs to. @type {Record<string, string>} */
const OF = { order: "", terminal: "terminals", money: "nodes", claims: "nodes", trains: "nodes" };

async function show() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, id, tab] = path.split("/").map(decodeURIComponent);
  if (shownAt === location.hash && name !== "") return;
  shownAt = location.hash;
  const mine = shows += 1;  // the same address may be shown again while its module is still loaded
  leave();
  leave = () => {};
  document.body.dataset.view = name || "board";
  for (const each of document.querySelectorAll("#nav a, #thumb a")) {
    const here = each.getAttribute("href") === `#/${OF[name] ?? name}`;
    if (here) each.setAttribute("aria-current", "page"); else each.removeAttribute("aria-current");
  }
  if (name === "order" && id) {
    select(id);
    leave = showOrder(view, id, tab || "run");
  } else if (VIEWS[name]) {
    select("");
    fill(view, el("p", { class: "empty" }, "…"));
    try {
      const module = await VIEWS[name]();
      if (mine === shows) leave = module.show(view, { name, id, query: new URLSearchParams(query ?? "") }) ?? (() => {});
    } catch (error) { if (mine === shows) fill(view, el("p", { class: "problem" }, `This part of the page could not be loaded: ${/** @type {Error} */ (error).message}`)); }
  } else {
    showFirst();
  }
  view.scrollTop = 0;
}

/** The oldest that needs someone is open already. On a small screen the list itself is what is looked at. */
function showFirst() {
  const first = board.sections.needs[0];
  if (first && !matchMedia("(max-width: 700px)").matches) {
    select(first);
    leave = showOrder(view, first, board.rows.get(first)?.needs === "review" ? "changes" : "run");
    openId = first;
    return;
  }
  openId = "";
  select("");
  const words = nothing();
  words.dataset.mark = words.textContent ?? "";
  // What says the same stays, with what someone has typed or was given in it.
  if (/** @type {HTMLElement | null} */ (view.firstChild)?.dataset?.mark !== words.dataset.mark) fill(view, words);
}
let openId = "";
const onBoard = () => location.hash === "" || location.hash === "#/";

/** Nothing is put in the place of what someone reads or writes in. */
function inUse() {
  const focus = document.activeElement;
  return view.contains(focus) && focus !== view && Boolean(openId || focus?.matches("input, textarea"));
}

let signInProblem = "";

function nothing() {
  if (link.signedOut) return el("div", { class: "nothing" }, el("h1", null, "Not signed in"), signInProblem ? el("p", null, signInProblem) : null, el("p", null, "Print a new link on the machine that serves this page, and open it here:"), copyable("treadle serve --link"));
  if (link.fleet.state === "none") return el("div", { class: "nothing" }, el("h1", null, "No fleet here"), el("p", null, "Start one, and this page connects to it. Terminals work without a fleet."), copyable("treadle fleet up"), el("p", null, el("a", { href: "#/terminals" }, "Terminals")));
  if (!board.known) return el("p", { class: "empty" }, "…");
  const orders = Object.values(board.counts).reduce((sum, count) => sum + count, 0);
  const [up, all] = board.nodes;
  if (!up) return el("div", { class: "nothing" }, el("h1", null, "No node is running"), el("p", null, all ? `${all} ${all === 1 ? "has" : "have"} run before. ` : "", "Orders wait until a node runs. On this machine:"), copyable("treadle fleet up"), joinCode());
  if (!orders) return el("div", { class: "nothing" }, el("h1", null, "No orders yet"), el("p", null, `${up} ${up === 1 ? "node is" : "nodes are"} ready. Submit an order here, or on the command line:`), copyable('treadle fleet submit "fix the failing test" --root . --verify "make test"'), firstOrder());
  return el("div", { class: "nothing" }, el("h1", null, "Nothing needs you"), el("p", null, `${board.sections.working.length + (board.more.working ?? 0)} at work, ${board.sections.waiting.length + (board.more.waiting ?? 0)} waiting.`), el("ul", { class: "hits" }, board.sections.working.slice(0, 5).map((id) => el("li", null, el("a", { href: `#/order/${id}` }, board.rows.get(id)?.title, " ", el("span", { class: "small" }, nowOf(board.rows.get(id))))))));
}

/** What someone who has no order yet can press. */
function firstOrder() {
  if (link.right !== "all") return null;
  const problem = el("p", { class: "problem", role: "alert" });
  const demo = el("button", { type: "button", onclick: async () => {
    demo.disabled = true;
    try { location.hash = `#/order/${(await post("/demo")).id}`; } catch (error) { demo.disabled = false; fill(problem, /** @type {Error} */ (error).message); }
  } }, "Run the demo order");
  return [el("p", { class: "choices" }, el("a", { class: "button", href: "#/new" }, "New order"), " ", demo), el("p", { class: "small" }, "The demo needs no key: a scripted model fixes a small repository and asks one question."), problem];
}

/** A machine joins with one command, which holds a code that works once. */
function joinCode() {
  if (link.right !== "all") return null;
  const answer = el("div", { role: "status" }), name = el("input", { type: "text", "aria-label": "Name of the node", placeholder: "name of the node", required: true, pattern: "[A-Za-z0-9_\\-]{1,40}" });
  return [el("p", null, "Or on another machine:"), el("form", { class: "pair", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const made = await post("/invitations", { name: name.value });
      fill(answer, copyable(made.command), el("p", { class: "small" }, `It works once, within an hour. That machine must reach the engine at ${made.url}.`));
    } catch (error) { fill(answer, el("p", { class: "problem" }, /** @type {Error} */ (error).message)); }
  } }, name, el("button", null, "Create a join code")), answer];
}

// The bar and the band...

function showTop() {
  const pill = $("pill");
  pill.className = `pill ${link.live ? "live" : "dead"}`;
  setText(pill, link.signedOut ? "signed out" : link.live ? (link.fleet.state === "up" ? "live" : link.fleet.state === "reading" ? "reading…" : link.fleet.state === "none" ? "no fleet" : "engine away") : `not live since ${clock(lostSince() / 1000)}`);
  document.body.classList.toggle("watching", link.right === "watch");
  document.body.classList.toggle("offline", !link.live);
}

function showBand() {
  const band = $("band"), away = Date.now() - lostSince();
  if (link.signedOut) { band.hidden = false; fill(band, "This device is not signed in. Open a new link: ", el("code", null, "treadle serve --link")); return; }
  if (link.newVersion && link.live) { band.hidden = false; fill(band, "A new version is available. ", el("button", { type: "button", onclick: () => location.reload() }, "Reload")); return; }
  band.hidden = link.live || away < 3000;
  if (band.hidden) return;
  const next = Math.max(0, Math.ceil((link.nextTry - Date.now()) / 1000));
  setText(band, `Not live since ${clock(lostSince() / 1000)} (${span(away / 1000)}); next try in ${next} s. Drafts are kept.`);
}

/** Questions that have been told to who listens instead of looking. @type {Set<string>} */
const heard = new Set();

function tellNew() {
  for (const id of board.sections.needs) {
    const row = board.rows.get(id), key = row?.ask ? `${id} ${row.ask.number}` : "";
    if (!key || heard.has(key)) continue;
    heard.add(key);
    announce(`${row?.title} asks: ${nowOf(row)}`);
  }
}

function showCounts() {
  const needs = board.sections.needs.length + (board.more.needs ?? 0);
  document.title = `${needs ? `(${needs}) ` : ""}Treadle`;
  setText($("count"), needs ? String(needs) : "");
  const [up, all] = board.nodes;
  $("nodes").hidden = !all;
  setText($("nodes"), `nodes ${up} of ${all}`);
  $("nodes").classList.toggle("bad", up < all);
  const fleet = board.budgets.fleet;
  $("money").hidden = !fleet;
  if (fleet) {
    const spent = fleet.spent_usd ?? 0, most = fleet.usd, unpriced = fleet.unpriced_tokens ?? 0;
    const unknown = unpriced ? `${short(unpriced)} tok of unknown price` : "";  // what no one has priced is not free
    const told = spent || most || !unknown ? `$${spent.toFixed(2)}${most ? ` of ${most.toFixed(2)}` : ""}` : "";
    fill($("money"), most ? el("meter", { min: "0", max: String(most), value: String(spent), high: String(most * 0.8) }) : null, ` ${[told, unknown].filter(Boolean).join(" + ")}`);
  }
}

// Keys...

const KEYS = "j k next, previous · y allow · n deny · a more · m message · e first error · / search · o orders · ? keys";

/** @param {number} step */
function move(step) {
  const ids = order();
  if (!ids.length) return;
  const place = ids.indexOf(selectedId());
  const next = ids[Math.min(ids.length - 1, Math.max(0, place + step))];
  location.hash = `#/order/${next}`;
  reveal(next);
}

/** Not left to hashchange, which comes after the next keys, or never where the address is this one already. */
function toSearch() {
  location.hash = "#/search";
  shownAt = "";
  show();
}

/** @type {Record<string, () => unknown>} */
const ACTIONS = {
  j: () => move(1),
  k: () => move(-1),
  y: () => answerByKey("allow"),
  n: () => answerByKey("deny"),
  a: openMore,
  m: () => /** @type {HTMLElement | null} */ (view.querySelector(".composer textarea"))?.focus(),
  e: () => /** @type {HTMLElement | null} */ (view.querySelector(".run-bar button:nth-child(2):not([hidden])"))?.click(),
  o: () => { location.hash = "#/orders"; },
  "/": toSearch,
  "?": () => { location.hash = "#/settings"; },
  Escape: () => { if (location.hash !== "#/") location.hash = "#/"; },
};

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (target.matches("input, textarea, select, [contenteditable], .keyboard")) {
    if (event.key === "Escape" && !target.matches(".keyboard")) target.blur();
    return;
  }
  if (setting("keys", "on") === "off") return;
  const act = ACTIONS[event.key];
  if (act) { event.preventDefault(); act(); }
});

// After an answer the next question is opened, so that twenty need little more than twenty keys.
document.addEventListener("answered", (event) => {
  const done = /** @type {CustomEvent} */ (event).detail;
  const next = board.sections.needs.find((id) => id !== done && board.rows.get(id)?.ask && !board.rows.get(id)?.answered);
  if (next && selectedId() === done) location.hash = `#/order/${next}`;
});

// Beginning...

async function begin() {
  document.documentElement.dataset.theme = setting("theme", "");
  $("find").addEventListener("click", toSearch);
  const showKeys = () => setText($("keys"), setting("keys", "on") === "off" ? "Keys are off (Settings)" : KEYS);
  addEventListener("keys", showKeys);
  showKeys();
  showList($("list"));
  const code = location.hash.slice(1);
  if (code && !code.startsWith("/")) {
    history.replaceState(null, "", "/#/"); // a code is worth nothing once it was seen, and is not to stay in the address
    try { await signIn(code); } catch (error) {
      link.signedOut = true;
      signInProblem = /** @type {Error} */ (error).message;
    }
  }
  link.changed.add(() => { showTop(); showBand(); });
  // What this device may do is known only now, and what is shown depends on it.
  let right = link.right;
  link.changed.add(() => { if (link.right !== right) { right = link.right; shownAt = ""; show(); } });
  link.changed.add(() => { if (onBoard() && !openId) showFirst(); });
  board.changed.add(() => { showCounts(); tellNew(); if (onBoard() && (!openId || !board.rows.has(openId)) && !inUse()) { leave(); leave = () => {}; showFirst(); } });
  setInterval(showBand, 1000);
  addEventListener("hashchange", show);
  addEventListener("hashchange", () => complain(""));
  follow("board", (message) => { if (message.fleet) link.fleet = message.fleet; takeBoard(message); showTop(); });
  connect();
  show();
}

begin();

// One order: its question, its run, its changes, its receipt, why it is so; below all of them, a place to talk to it.

import { forgetAsk, showAsk } from "./ask.js";
import { change, follow, get, link, post } from "./server.js";
import { drafts } from "./store.js";
import { el, fill, oneLine, plain, setText } from "./text.js";
import { badge, cost, ENDED, told } from "./words.js";

const TABS = [["run", "Run"], ["changes", "Changes"], ["terminal", "Terminal"], ["receipt", "Receipt"], ["why", "Why"]];

/** @param {HTMLElement} where @param {string} id @param {string} tab @returns {() => void} */
export function showOrder(where, id, tab) {
  const head = el("header", { class: "order-head" }), ask = el("div"), body = el("div", { class: "tab-body" }), composer = el("div");
  const tabs = el("nav", { class: "tabs", "aria-label": "Parts of the order" }, TABS.map(([name, title]) =>
    el("a", { href: `#/order/${id}/${name}`, "aria-current": name === tab ? "page" : null }, title)));
  fill(where, head, ask, tabs, body, composer);
  /** @type {{update?: (detail: any) => void, stop?: () => void}} */
  let part = {};
  let begun = false, stopped = false;
  /** @type {any} */
  let known = null;
  // What may be done depends on the connection, too.
  const again = () => { if (known) { showComposer(composer, known); if (known.ask && ask.firstChild) showAsk(ask, known); } };
  link.changed.add(again);

  const stop = follow(`order:${id}`, (message) => {
    if (message.error && message.error.code !== "not_found") {
      if (!known) fill(head, el("p", { class: "problem" }, message.error.message));
      return;
    }
    if (message.error) {
      fill(where, el("div", { class: "nothing" }, el("h1", null, "No such order"), el("p", null, message.error.message), el("a", { href: "#/orders" }, "All orders")));
      return;
    }
    const detail = known = message.detail;
    showHead(head, detail);
    if (detail.ask && !ENDED.includes(detail.order.state)) showAsk(ask, detail);
    else if (ask.firstChild) { ask.replaceChildren(); delete ask.dataset.mark; forgetAsk(); }
    showComposer(composer, detail);
    if (!begun) { begun = true; begin(detail); }
    else part.update?.(detail);
  });

  /** @param {any} detail */
  async function begin(detail) {
    if (tab === "changes") {
      const { showChanges } = await import("./diff.js");
      if (!stopped) part = showChanges(body, detail);
    } else if (tab === "terminal") {
      const { showOfOrder } = await import("./terminals.js");
      if (!stopped) part = showOfOrder(body, detail);
    } else if (tab === "receipt" || tab === "why") {
      const { showReceipt, showWhy } = await import("./receipt.js");
      const show = tab === "receipt" ? showReceipt : showWhy;
      part = { update: (now) => show(body, now) };
      if (!stopped) part.update?.(known);
    } else {
      const { showRun } = await import("./run.js");
      if (!stopped) part = showRun(body, detail);
    }
  }

  return () => { stopped = true; link.changed.delete(again); stop(); part.stop?.(); forgetAsk(); };
}

/** @param {HTMLElement} head @param {any} detail */
function showHead(head, detail) {
  const order = detail.order;
  const row = { ...order, tokens: tokens(order.used), usd: order.used?.usd, needs: "" };
  const mark = JSON.stringify([order.state, order.title, order.agent, order.node, order.attempt, row.tokens, order.paused, link.right, order.result]);
  if (head.dataset.mark === mark || head.querySelector("select:focus")) return;
  head.dataset.mark = mark;
  const about = [order.agent, order.node && `on ${order.node}`, order.attempt > 1 && `attempt ${order.attempt}`, order.project, order.place, cost(row)].filter(Boolean).join(" · ");
  fill(head,
    el("div", { class: "line" }, badge(order), el("h1", null, order.title), el("age-of", { at: order.changed, as: told(order) })),
    el("p", { class: "small" }, about, " · ", el("code", null, order.id)),
    order.why ? el("p", { class: "small" }, order.why) : null,
    (order.handed ?? []).map((/** @type {any} */ one) => el("p", { class: "small" }, `${one.to} replaced ${one.before} (${one.by}, ${one.reason.replace("_", " ")})${one.why ? `: ${one.why}` : ""}`)),
    link.right === "all" ? actions(detail) : null);
}

/** @param {any} used */
const tokens = (used) => used ? ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"].reduce((sum, name) => sum + (used[name] ?? 0), 0) : 0;

/** @param {string} id @param {string} now @param {HTMLElement} problem */
function handOver(id, now, problem) {
  const first = el("option", { value: "" }, "Hand over to ...");
  const to = el("select", { "aria-label": "Hand over to", onfocus: async () => {
    if (to.options.length > 1) return;
    const { agents } = await get("/choices");
    to.append(...agents.filter((/** @type {any} */ each) => each.name !== now).map((/** @type {any} */ each) => el("option", { value: each.name }, each.name)));
  }, onchange: async () => {
    const name = to.value;
    to.value = "";
    to.blur();
    if (!confirm(`End ${now}, and let ${name} continue from here?`)) return;
    try { await post(`/orders/${id}/hand`, { to: name }); fill(problem); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  } }, first);
  return to;
}

/** @param {any} detail */
function actions(detail) {
  const { id, state } = detail.order;
  const problem = el("span", { class: "problem", role: "alert" });
  /** @param {string} words @param {() => Promise<any>} work @param {boolean} [sure] */
  const act = (words, work, sure) => {
    const button = el("button", { type: "button", class: "quiet", onclick: async () => {
      if (sure && !button.dataset.sure) { button.dataset.sure = "1"; setText(button, `${words}: sure?`); setTimeout(() => { delete button.dataset.sure; setText(button, words); }, 4000); return; }
      try { await work(); fill(problem); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
    } }, words);
    return button;
  };
  const ended = ENDED.includes(state);
  return el("div", { class: "actions" },
    ended || detail.order.agent === "person" ? null : handOver(id, detail.order.agent, problem),
    ended ? null : act("Cancel", () => post(`/orders/${id}/cancel`, {}), true),
    ended ? act("Retry", async () => { location.hash = `#/order/${(await post(`/orders/${id}/retry`)).id}`; }) : null,
    ended && !detail.order.result?.reviewed ? act("Mark as seen", () => post(`/orders/${id}/reviewed`)) : null,
    state === "done" && detail.order.result?.commit && !detail.order.result?.merged ? act("Land", async () => { await post(`/orders/${id}/land`, {}); location.hash = "#/trains"; }, true) : null,
    detail.order.retried_as ? el("a", { href: `#/order/${detail.order.retried_as}` }, "next try") : null,
    problem);
}

// Talking to it: what was said, how far it came, and what is still to be said...

/** @type {Record<string, string>} */
const WORDS = { queued: "queued", delivered: "delivered", "in turn": "read", "taken back": "withdrawn", refused: "refused" };

/** @param {HTMLElement} where @param {any} detail */
function showComposer(where, detail) {
  const { id, state } = detail.order;
  const mark = JSON.stringify([id, ENDED.includes(state), detail.messages, link.right, link.live, detail.deaf]);
  if (where.dataset.mark === mark) return;
  const had = where.contains(document.activeElement);
  where.dataset.mark = mark;
  const said = /** @type {any[]} */ (detail.messages).map((message) => bubble(id, message));
  if (link.right === "watch" || ENDED.includes(state)) {
    const note = ENDED.includes(state) && said.length ? el("p", { class: "small" }, "This order has ended and takes no messages. Comment on its changes to have it redone.") : null;
    return fill(where, said.length ? el("div", { class: "composer" }, said, note) : null);
  }
  const off = link.live ? "" : "Not connected: your draft is kept.";
  const text = el("textarea", { rows: "2", "aria-label": "Message to the agent", placeholder: "Message" });
  text.value = drafts.get(id);
  text.addEventListener("input", () => drafts.set(id, text.value));
  const when = el("select", { "aria-label": "When" }, detail.deaf ? null : el("option", { value: "" }, "at its next step"), el("option", { value: "turn" }, "after this turn"), el("option", { value: "now" }, "now (interrupts its turn)"));
  const problem = el("p", { class: "problem", role: "alert" }, off);
  const send = async () => {
    if (!text.value.trim()) return;
    try {
      await post(`/orders/${id}/messages`, { text: text.value, when: when.value });
      text.value = "";
      drafts.set(id, "");
      fill(problem);
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  };
  text.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(); });
  fill(where, el("div", { class: "composer" }, said, el("div", { class: "write" }, text, el("div", { class: "send" }, when, el("button", { type: "button", class: "main", disabled: Boolean(off), onclick: send }, "Send"))), problem));
  if (had) text.focus();
}

/** @param {string} id @param {any} message */
function bubble(id, message) {
  const problem = el("span", { class: "problem", role: "alert" });
  const number = String(message.key).split(".").pop();
  /** @param {string} text */
  const edit = async (text) => {
    try { await change(`/orders/${id}/messages/${number}`, { text }); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  };
  const made = el("div", { class: `bubble ${oneLine(message.state).replace(" ", "-")}` }, el("span", { class: "small" }, `${plain(message.by)}: ${WORDS[message.state] ?? oneLine(message.state)}${message.why ? `, because ${plain(message.why)}` : ""}`), el("div", null, message.text));
  if (message.state === "queued" && link.right !== "watch") {
    made.append(el("button", { type: "button", class: "quiet", onclick: () => {
      const field = el("textarea", { rows: "2" });
      field.value = message.text;
      fill(made, field, el("button", { type: "button", onclick: () => edit(field.value) }, "Change"), problem);
      field.focus();
    } }, "Edit"), el("button", { type: "button", class: "quiet", onclick: () => edit("") }, "Withdraw"), problem);
  }
  return made;
}

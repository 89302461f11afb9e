// Talking to an order at work: what was said, how far it came, and what is still to be said.

import { change, post } from "./api.js";
import { link } from "./socket.js";
import { drafts } from "./store.js";
import { el, fill, oneLine, plain } from "./text.js";

const ENDED = ["done", "failed", "cancelled", "skipped"];
/** @type {Record<string, string>} */
const WORDS = { queued: "queued", delivered: "delivered", "in turn": "read into a turn", "taken back": "taken back" };

/** @param {HTMLElement} where @param {any} detail */
export function showComposer(where, detail) {
  const { id, state } = detail.order;
  const mark = JSON.stringify([id, ENDED.includes(state), detail.messages, link.right, link.live]);
  if (where.dataset.mark === mark) return;
  const had = where.contains(document.activeElement);
  where.dataset.mark = mark;
  const said = /** @type {any[]} */ (detail.messages).map((message) => bubble(id, message));
  if (link.right === "watch" || ENDED.includes(state)) {
    const note = ENDED.includes(state) && said.length ? el("p", { class: "small" }, "It has ended: nothing more that is said reaches it. Comment on its changes to have it done over.") : null;
    return fill(where, said.length ? el("div", { class: "composer" }, said, note) : null);
  }
  const off = link.live ? "" : "Not connected: this stays here until it is.";
  const text = el("textarea", { rows: "2", "aria-label": "Message to the agent", placeholder: "Say something to the agent" });
  text.value = drafts.get(id);
  text.addEventListener("input", () => drafts.set(id, text.value));
  const when = el("select", { "aria-label": "When" }, el("option", { value: "" }, "at its next step"), el("option", { value: "turn" }, "after this turn"), el("option", { value: "now" }, "now (ends its turn)"));
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
  const made = el("div", { class: `bubble ${oneLine(message.state).replace(" ", "-")}` }, el("span", { class: "small" }, `${plain(message.by)}: ${WORDS[message.state] ?? oneLine(message.state)}`), el("div", null, message.text));
  if (message.state === "queued" && link.right !== "watch") {
    made.append(el("button", { type: "button", class: "quiet", onclick: () => {
      const field = el("textarea", { rows: "2" });
      field.value = message.text;
      fill(made, field, el("button", { type: "button", onclick: () => edit(field.value) }, "Change"), problem);
      field.focus();
    } }, "Edit"), el("button", { type: "button", class: "quiet", onclick: () => edit("") }, "Take back"), problem);
  }
  return made;
}

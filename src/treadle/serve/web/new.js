// Giving an order.

import { link, post } from "./server.js";
import { drafts } from "./store.js";
import { el, fill } from "./text.js";

/** @param {HTMLElement} where */
export function show(where) {
  if (link.right !== "all") return void fill(where, el("p", { class: "watching" }, "This device may not give orders."));
  const task = el("textarea", { rows: "6", required: true });
  task.value = drafts.get("new");
  task.addEventListener("input", () => drafts.set("new", task.value));
  /** @param {string} name @param {string} words @param {string} value @param {string} [hint] */
  const field = (name, words, value, hint = "") => { const input = el("input", { type: "text", name, placeholder: hint }); input.value = localStorage.getItem(`new ${name}`) ?? value; return { input, label: el("label", null, words, input) }; };
  const fields = { agent: field("agent", "Agent", "native"), model: field("model", "Model", "", "the agent's own"), root: field("root", "Directory or repository, on the node", "", "/src/shop"), verify: field("verify", "Check that must pass", "", "make test"), claims: field("claims", "Files it has for itself", "", "src/**, tests/**"), project: field("project", "Project", ""), usd: field("usd", "At most, in USD", "") };
  const problem = el("p", { class: "problem", role: "alert" });
  // The same key for the same try: a request whose answer was lost gives no second order.
  const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  fill(where, el("h1", null, "New order"), el("form", { class: "form", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    /** @type {Record<string, any>} */
    const body = { task: task.value, claims: [], limits: {} };
    for (const [name, { input }] of Object.entries(fields)) {
      if (name !== "usd" && name !== "claims") localStorage.setItem(`new ${name}`, input.value);
      if (input.value && name === "usd") body.limits = { usd: Number(input.value) };
      else if (name === "claims") body.claims = input.value.split(",").map((/** @type {string} */ each) => each.trim()).filter(Boolean);
      else if (input.value) body[name] = input.value;
    }
    try {
      const given = await post("/orders", body, { "idempotency-key": `page ${key} ${JSON.stringify(body)}` });
      drafts.set("new", "");
      location.hash = `#/order/${given.id}`;
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  } }, el("label", null, "What is to be done", task), Object.values(fields).map((each) => each.label), problem, el("button", { class: "main" }, "Give the order")));
  task.focus();
}

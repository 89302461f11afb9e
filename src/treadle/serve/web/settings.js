// Keys, looks, devices.

import { get, link, post, remove } from "./server.js";
import { keep, setting } from "./store.js";
import { showPush } from "./push.js";
import { table } from "./receipt.js";
import { el, fill } from "./text.js";
import { span, serverNow } from "./words.js";

const KEYS = [["j k", "next, previous order"], ["y", "allow what is asked, once"], ["n", "deny it"], ["a", "more answers"], ["m", "write to the agent"], ["e", "the first error of the run"], ["/", "search, and places to go"], ["o", "all orders"], ["Esc", "back to the board"], ["Shift Esc", "out of a terminal"]];

/** @param {HTMLElement} where */
export function show(where) {
  const devices = el("div"), push = el("div"), problem = el("p", { class: "problem", role: "alert" });
  const on = el("input", { type: "checkbox", onchange: () => { keep("keys", on.checked ? "on" : "off"); dispatchEvent(new Event("keys")); } });
  on.checked = setting("keys", "on") === "on";
  const theme = el("select", { "aria-label": "Looks", onchange: () => { keep("theme", theme.value); document.documentElement.dataset.theme = theme.value; } }, el("option", { value: "" }, "as the system"), el("option", { value: "light" }, "light"), el("option", { value: "dark" }, "dark"));
  theme.value = setting("theme", "");
  fill(where, el("h1", null, "Settings"), el("h2", null, "Looks"), theme, el("h2", null, "Keys"), el("label", { class: "line" }, on, "single keys do something"), table(["Key", "Does"], KEYS), push, problem, devices);
  showPush(push);
  const load = async () => {
    if (link.right !== "all") return fill(devices, el("p", { class: "small" }, `This device may: ${link.right}.`));
    try {
      const rows = await get("/devices");
      const right = el("select", { "aria-label": "What it may do" }, el("option", { value: "answer" }, "answer"), el("option", { value: "watch" }, "only watch"), el("option", { value: "all" }, "everything"));
      const made = el("p");
      fill(devices, el("h2", null, "Devices"), table(["Name", "May", "Seen", "Action"], rows.map((/** @type {any} */ each) => [each.name || each.id, each.right, each.used ? `${span(serverNow() - each.used)} ago` : "never", each.you ? "this one" : el("button", { type: "button", class: "quiet", onclick: async () => { try { await remove(`/devices/${each.id}`); load(); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } } }, "Take its token back")])),
        el("div", { class: "bar" }, right, el("button", { type: "button", onclick: async () => { const link_ = await post("/devices", { right: right.value }); fill(made, "Open this once on the other device, within ten minutes: ", el("code", null, link_.url)); } }, "Link for another device")), made);
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  };
  load();
}

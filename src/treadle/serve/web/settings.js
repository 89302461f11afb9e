// Keys, looks, devices.

import { get, link, post, remove } from "./server.js";
import { keep, setting } from "./store.js";
import { showPush } from "./push.js";
import { table } from "./receipt.js";
import { el, fill } from "./text.js";
import { span, serverNow } from "./words.js";

const KEYS = [["j k", "next, previous order"], ["y", "allow once"], ["n", "deny"], ["a", "more answers"], ["m", "message the agent"], ["e", "first error of the run"], ["/", "search"], ["o", "all orders"], ["Esc", "back to the board"], ["Shift Esc", "leave a terminal"]];

/** @param {HTMLElement} where */
export function show(where) {
  const devices = el("div"), push = el("div"), problem = el("p", { class: "problem", role: "alert" });
  const on = el("input", { type: "checkbox", onchange: () => { keep("keys", on.checked ? "on" : "off"); dispatchEvent(new Event("keys")); } });
  on.checked = setting("keys", "on") === "on";
  const theme = el("select", { "aria-label": "Looks", onchange: () => { keep("theme", theme.value); document.documentElement.dataset.theme = theme.value; } }, el("option", { value: "" }, "system theme"), el("option", { value: "light" }, "light"), el("option", { value: "dark" }, "dark"));
  theme.value = setting("theme", "");
  fill(where, el("h1", null, "Settings"), el("h2", null, "Looks"), theme, el("h2", null, "Keys"), el("label", { class: "line" }, on, "single-key shortcuts"), table(["Key", "Does"], KEYS), push, problem, devices);
  showPush(push);
  const load = async () => {
    if (link.right !== "all") return fill(devices, el("p", { class: "small" }, `This device may: ${link.right}.`));
    try {
      const rows = await get("/devices");
      const right = el("select", { "aria-label": "Permissions" }, el("option", { value: "answer" }, "answer"), el("option", { value: "watch" }, "watch only"), el("option", { value: "all" }, "everything"));
      const made = el("p");
      fill(devices, el("h2", null, "Devices"), table(["Name", "May", "Seen", "Action"], rows.map((/** @type {any} */ each) => [each.name || each.id, each.right, each.used ? `${span(serverNow() - each.used)} ago` : "never", each.you ? "this one" : el("button", { type: "button", class: "quiet", onclick: async () => { try { await remove(`/devices/${each.id}`); load(); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } } }, "Revoke")])),
        el("div", { class: "bar" }, right, el("button", { type: "button", onclick: async () => { const link_ = await post("/devices", { right: right.value }); fill(made, "Open this link on the other device within ten minutes (it works once): ", el("code", null, link_.url)); } }, "Link for another device")), made);
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  };
  load();
}

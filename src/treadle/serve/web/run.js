// What happened in a run: the newest page first, tools a line each, long outputs when they are asked for.

import { follow, get, remember } from "./server.js";
import { el, fill, linked, oneLine, plain, setText } from "./text.js";
import { clock, span, watch } from "./words.js";

const MOST = 3000;
const IDLE = 60;

/** @param {HTMLElement} where @param {any} detail */
export function showRun(where, detail) {
  const id = detail.order.id, topic = `run:${id}`;
  const older = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => loadOlder() }, "Earlier events");
  const wrong = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => toError() }, "First error ", el("kbd", null, "e"));
  const total = el("span", { class: "small" });
  const list = el("ol", { class: "events" });
  const empty = el("p", { class: "empty" });
  fill(where, el("div", { class: "run-bar" }, older, wrong, total), empty, list);
  const view = /** @type {HTMLElement} */ (where.closest(".view") ?? where);
  /** @type {Map<string, any>} call -> its line */
  const calls = new Map();
  /** @type {number | null} */
  let before = null;
  let count = 0, lastTime = 0, error = detail.first_error;
  /** @type {any} */
  let streaming = null;
  fill(empty, "Loading the events…");

  const stop = follow(topic, (message) => {
    if (message.error) { fill(empty, message.error.message); return; }
    if (message.reset) { list.replaceChildren(); calls.clear(); streaming = null; lastTime = 0; before = message.before; count = message.total; }
    else count += message.events.length;
    const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 80;
    for (const each of message.events) add(each, list);
    while (list.childElementCount > MOST) { list.firstElementChild?.remove(); before = Number(list.firstElementChild?.dataset.seq) || before; }
    remember(topic, { after: message.after });
    tell();
    if (atEnd && !view.querySelector(".question")) view.scrollTop = view.scrollHeight;
  });

  function tell() {
    older.hidden = !before;
    wrong.hidden = !error;
    setText(total, count ? `${count} events` : "");
    fill(empty, list.childElementCount ? null : "No events yet.");
  }

  async function loadOlder() {
    if (!before) return;
    const page = await get(`/orders/${id}/events?before=${before}&count=300`);
    const height = view.scrollHeight, fresh = document.createDocumentFragment();
    const keepTime = lastTime, keepStream = streaming;
    lastTime = 0; streaming = null;
    const box = el("ol");
    for (const each of page.events) add(each, box);
    lastTime = keepTime; streaming = keepStream;
    fresh.append(...box.childNodes);
    list.prepend(fresh);
    before = page.before;
    view.scrollTop += view.scrollHeight - height;
    tell();
  }

  async function toError() {
    if (!error) return;
    const [seq, n] = error;
    for (let tries = 0; tries < 50 && before && !list.querySelector(`[data-key="${seq}.${n}"]`); tries += 1) {
      if (before <= seq) break;
      if (before - seq > 2000) { // far back: go there at once
        const page = await get(`/orders/${id}/events?before=${seq + 1}&count=300`);
        list.replaceChildren(); calls.clear(); streaming = null; lastTime = 0;
        for (const each of page.events) add(each, list);
        before = page.before;
        break;
      }
      await loadOlder();
    }
    const found = /** @type {HTMLElement | null} */ (list.querySelector(`[data-key="${seq}.${n}"]`) ?? list.querySelector(".bad"));
    found?.scrollIntoView({ block: "center" });
    found?.querySelector("summary")?.focus();
    found?.classList.add("found");
  }

  /** @param {any} shown @param {any} into */
  function add(shown, into) {
    const event = shown.event ?? {}, at = event.ts || 0;
    if (at && lastTime && at - lastTime > IDLE) into.append(el("li", { class: "idle" }, `${span(at - lastTime)} nothing`));
    if (at) lastTime = at;
    const line = lineOf(shown, event, into);
    if (line) { line.dataset.key = `${shown.seq}.${shown.n}`; line.dataset.seq = String(shown.seq); into.append(line); }
  }

  /** @param {any} shown @param {any} event @param {any} into @returns {any} */
  function lineOf(shown, event, into) {
    if (shown.end) return el("li", { class: "mark" }, `attempt ${shown.attempt}: ${shown.end}`);
    const type = event.type;
    if (type === "text_delta" || type === "thinking_delta") {
      const kind = type === "text_delta" ? "text" : "thinking";
      if (streaming?.kind === kind && streaming.node.isConnected) { streaming.text.append(document.createTextNode(plain(event.text))); return null; }
      const text = el("div", { class: "said" }, event.text);
      streaming = { kind, text, node: el("li", { class: `block ${kind} live` }, text) };
      return streaming.node;
    }
    if (type === "message") {
      if (streaming) { streaming.node.remove(); streaming = null; }
      if (event.kind === "thinking") return el("li", { class: "block thinking" }, el("details", null, el("summary", null, `thought: ${oneLine(event.text).slice(0, 100)}`), el("div", { class: "said" }, event.text), whole(shown, "text")));
      return el("li", { class: "block text" }, el("div", { class: "said" }, ...linked(event.text)), whole(shown, "text"));
    }
    streaming = null;
    if (type === "turn_started") return prompt(shown, event);
    if (type === "tool_started") return tool(shown, event);
    if (type === "tool_ended") return toolEnded(shown, event);
    if (type === "turn_ended") return el("li", { class: `mark ${event.outcome === "failed" ? "bad" : ""}` }, `turn ${event.outcome}${event.error ? `: ${event.error.message}` : ""}`);
    if (type === "asked") return el("li", { class: "mark ask" }, `asked: ${oneLine(event.command || event.text)}`);
    if (type === "answered") return el("li", { class: "mark" }, `answered by ${oneLine(event.by) || "someone"}: ${event.decision}`);
    if (type === "tool_denied") return el("li", { class: "mark bad" }, `denied (${event.by ?? "rule"}): ${event.name} ${oneLine(event.reason)}`);
    if (type === "failed") return el("li", { class: "mark bad" }, `failed: ${oneLine(event.error?.message)}`);
    if (type === "retrying") return el("li", { class: "mark" }, `retrying in ${span((event.delay_ms ?? 0) / 1000)}: ${oneLine(event.error?.message)}`);
    if (type === "warned") return el("li", { class: "mark" }, `warning: ${oneLine(event.message)}`);
    if (type === "file_changed") return el("li", { class: "mark" }, `${event.change} ${oneLine(inTree(event.path))}`);
    if (type === "command_run") return el("li", { class: `mark ${event.exit_code ? "bad" : ""}` }, `ran ${oneLine(event.command)}${event.exit_code ? ` (exit ${event.exit_code})` : ""}`);
    if (type === "model_routed") return el("li", { class: "mark" }, `the model is ${oneLine(event.model)}`);
    if (type === "context_pruned" || type === "context_compacted") return el("li", { class: "mark" }, `the context was ${type.slice(8)}: ${event.tokens_before} to ${event.tokens_after} tokens`);
    if (type === "context_handoff") return el("li", { class: "mark" }, event.to ? `${oneLine(event.to)} continues, with a summary of the work so far` : "the conversation restarts with a summary");
    if (type === "task_changed" && event.task && event.change !== "updated") return el("li", { class: "mark" }, `${oneLine(event.task.label)}: ${event.change}`);
    if (["tool_output", "usage", "task_changed", "task_group_changed", "closed"].includes(type)) return null;
    // An event of a newer version is shown as what it is: unknown.
    return el("li", { class: "mark unknown" }, `unknown event ${oneLine(type)}: ${oneLine(JSON.stringify(event)).slice(0, 300)}`);
  }

  /** What a person wrote, and folded what Treadle added to it or wrote itself. @param {any} shown @param {any} event */
  function prompt(shown, event) {
    const texts = [detail.spec?.task, ...(detail.messages ?? []).map((/** @type {any} */ one) => one.text)].filter(Boolean);
    const theirs = event.source === "agent" ? "" : texts.find((text) => event.prompt.startsWith(text)) ?? "", ours = event.prompt.slice(theirs.length).trim();
    return el("li", { class: "block prompt" }, theirs ? el("div", { class: "said" }, theirs) : null,
      ours ? el("details", null, el("summary", null, `${theirs ? "added by" : "from"} Treadle: ${oneLine(ours).slice(0, 100)}`), el("div", { class: "said" }, ours)) : null, whole(shown, "prompt"));
  }

  /** @param {any} shown @param {any} event */
  function tool(shown, event) {
    const about = event.command || (event.paths ?? []).map(inTree).join(" ") || (event.args ? JSON.stringify(event.args) : "");
    const state = el("span", { class: "outcome" }, "…");
    const body = el("div", { class: "tool-body" });
    const line = el("li", { class: "tool" }, el("details", null,
      el("summary", null, state, " ", el("b", null, event.name), " ", el("code", null, oneLine(about).slice(0, 300)), " ", event.ts ? el("time", null, clock(event.ts)) : null), body));
    if (event.command) body.append(el("pre", null, event.command));
    else if (event.args) body.append(el("pre", null, JSON.stringify(event.args, null, 2)));
    body.append(...[whole(shown, "args", "command")].filter(Boolean));
    calls.set(event.call, { line, state, body });
    return line;
  }

  /** @param {any} shown @param {any} event */
  function toolEnded(shown, event) {
    const known = calls.get(event.call);
    const ok = event.ok !== false;
    const took = event.duration_ms ? ` ${watch(event.duration_ms / 1000)}` : "";
    const output = event.result ? el("pre", { class: "output" }, event.result) : null;
    if (known) {
      setText(known.state, ok ? `✓${took}` : `✕${took}`);
      known.line.classList.toggle("bad", !ok);
      known.line.dataset.key = `${shown.seq}.${shown.n}`;
      if (output) known.body.append(output);
      const rest = whole(shown, "result");
      if (rest) known.body.append(rest);
      calls.delete(event.call);
      return null;
    }
    return el("li", { class: `tool ${ok ? "" : "bad"}` }, el("details", null, el("summary", null, ok ? `✓${took} ` : `✕${took} `, el("b", null, event.name)), output, whole(shown, "result")));
  }

  /** What was too long for the page can be had whole. @param {any} shown @param {...string} fields */
  function whole(shown, ...fields) {
    const cut = Object.entries(shown.cut ?? {}).find(([name]) => fields.some((field) => name === field || name.startsWith(`${field}.`)));
    if (!cut) return null;
    const button = el("button", { type: "button", class: "quiet", onclick: async () => {
      const event = await get(`/orders/${id}/event?seq=${shown.seq}&n=${shown.n}`);
      const value = event[cut[0].split(".")[0]];
      button.replaceWith(el("pre", { class: "output whole", tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2)));
    } }, `show all ${cut[1]} characters`);
    return button;
  }

  return { update: (/** @type {any} */ now) => { error = now.first_error; tell(); }, stop, toError };
}

/** A file of the order's worktree is called by its name in the repository. @param {string} path */
const inTree = (path) => String(path).replace(/^.*\/runs\/[^/]+\/work\//, "");

// Kept programs: a wall of their screens, those that wait for someone first; one of them to type into.

import { Screen } from "./screen.js";
import { follow, get, link, post } from "./server.js";
import { el, fill, oneLine, setText } from "./text.js";

const FIRST = ["permission", "question", "auth", "error", "unknown", "working", "thinking", "streaming", "tool_use", "active", "starting", "idle"];
const ROW = [["Esc", "Escape"], ["Tab", "Tab"], ["←", "Left"], ["↑", "Up"], ["↓", "Down"], ["→", "Right"], ["Ctrl-C", "C-c"], ["Enter", "Enter"]];
const LEAST = 11;  // pixels of a letter
const PANE = 210;  // as high as the style sheet has it: to ask for it would lay the page out anew
// No one can tell what such a program does, but the one who types sees its screen. Into a dialog no line is typed unasked.
const UNSURE = ["unknown", "starting"];
/** @type {Record<string, string>} */
const NAMES = { ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right", Enter: "Enter", Backspace: "Backspace", Delete: "Delete", Home: "Home", End: "End", PageUp: "PageUp", PageDown: "PageDown", Escape: "Escape", Tab: "Tab" };

/** @param {HTMLElement} where @param {{name: string, id: string}} address */
export function show(where, { name, id }) {
  return name === "terminal" && id ? showOne(where, id) : showWall(where);
}

/** @param {HTMLElement} where */
function showWall(where) {
  const wall = el("div", { class: "wall" }), empty = el("p", { class: "empty" }, "…");
  fill(where, el("h1", null, "Terminals"), empty, wall);
  /** @type {Map<string, {card: any, screen: Screen, stop: () => void, line: any}>} */
  const cards = new Map();
  // All of them are drawn at once, twice a second: to show a frame costs more than what changed in it.
  /** @type {[{screen: Screen, line: any}, any][]} */
  let held = [];
  let drawing = 0;
  /** @param {{screen: Screen, line: any}} card @param {any} frame */
  const hold = (card, frame) => {
    if (frame.error) { setText(card.line, frame.error.message); return; }
    held.push([card, frame]);
    drawing ||= setTimeout(() => requestAnimationFrame(() => {
      drawing = 0;
      for (const [{ screen }, each] of held.splice(0)) { screen.take(each); crop(screen); }
    }), card.screen.cols ? 450 : 0);
  };
  // Only what is on screen is followed.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const name = /** @type {HTMLElement} */ (entry.target).dataset.id ?? "", card = cards.get(name);
      if (!card) continue;
      card.stop();
      card.stop = entry.isIntersecting ? follow(`screen:${name}`, (frame) => hold(card, frame), { level: "wall" }) : () => {};
    }
  });
  const stop = follow("terminals", (message) => {
    const rows = /** @type {any[]} */ (message.value).filter((row) => row.alive).sort((one, other) => FIRST.indexOf(one.state) - FIRST.indexOf(other.state));
    fill(empty, rows.length ? null : ["No terminals are running. Start one: ", el("code", null, "treadle run --id a1 -- claude")]);
    for (const row of rows) {
      let card = cards.get(row.id);
      if (!card) {
        const canvas = el("canvas", { width: "300", height: "160", role: "img", "aria-label": `Terminal ${row.id}` }), line = el("span", { class: "small" });
        card = { card: el("a", { class: "screen-card", href: `#/terminal/${row.id}`, "data-id": row.id }, el("b", null, row.id), " ", line, el("div", { class: "pane" }, canvas)), screen: new Screen(canvas, 11, 2000), stop: () => {}, line };
        cards.set(row.id, card);
        seen.observe(card.card);
      }
      setText(card.line, [row.state, row.dialog ? `[${row.dialog}]` : "", oneLine(row.message ?? ""), (row.command ?? []).join(" ")].filter(Boolean).join(" · ").slice(0, 160));
    }
    const ids = rows.map((row) => row.id);
    for (const [name, card] of cards) if (!ids.includes(name)) { card.stop(); card.card.remove(); cards.delete(name); }
    const shown = [...wall.children].map((/** @type {any} */ child) => child.dataset.id);
    if (shown.join() !== ids.join() && !wall.matches(":hover") || shown.length !== ids.length) wall.append(...ids.map((name) => /** @type {any} */ (cards.get(name)).card));
  });
  return () => { stop(); clearTimeout(drawing); seen.disconnect(); for (const card of cards.values()) card.stop(); };
}

/** Show the part of a large screen where something stands. @param {Screen} screen */
function crop(screen) {
  const { canvas, high = 14, wide = 7 } = screen;
  let last = screen.cursor?.[1] ?? 0;
  screen.rows.forEach((row, number) => { if (row?.length) last = Math.max(last, number); });
  const mark = `${Math.ceil(screen.cols * wide)} ${Math.min(0, PANE - (last + 1) * high - 4)}`;
  if (canvas.dataset.crop === mark) return;
  canvas.dataset.crop = mark;
  [canvas.style.width, canvas.style.marginTop] = mark.split(" ").map((size) => `${size}px`);
}

/** The terminal of an order's agent, where it has one, or a shell in its worktree. @param {HTMLElement} where @param {any} detail */
export function showOfOrder(where, detail) {
  const { id, state } = detail.order, problem = el("p", { class: "problem", role: "alert" });
  let stop = () => {};
  const open = async () => {
    try {
      const made = await post(`/orders/${id}/shell`);
      stop();
      stop = showOne(where, made.terminal, "shell in its worktree");
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  };
  const button = link.right === "all" && detail.order.attempt ? el("p", null, el("button", { type: "button", onclick: open }, "Open a shell in its worktree")) : null;
  if (detail.spec.terminal && ["running", "asking", "paused"].includes(state)) {
    const pane = el("div");
    fill(where, pane, button, problem);
    stop = showOne(pane, `fleet-${id}`, "its agent");
  } else {
    const why = detail.spec.terminal ? `The agent's terminal exists only while it works; the order is ${state}.` : "This agent has no terminal: see the Run tab.";
    fill(where, el("p", { class: "small" }, why), button, problem);
  }
  return { stop: () => stop() };
}

/** @param {HTMLElement} where @param {string} id @param {string} [title] */
function showOne(where, id, title) {
  const canvas = el("canvas", { width: "640", height: "384", role: "img", "aria-label": `Terminal ${id}` }), state = el("span", { class: "small", role: "status" }), problem = el("p", { class: "problem", role: "alert" });
  const screen = new Screen(canvas, 14), may = link.right === "all";
  const back = el("pre", { class: "lines", hidden: true, tabindex: "0" });
  let first = -1, seen = "";
  /** @param {any} body */
  const send = async (body) => { try { await post(`/terminals/${id}/input`, body); fill(problem); } catch (error) { fill(problem, /** @type {Error} */ (error).message, " ", "text" in body ? el("button", { type: "button", class: "quiet", onclick: () => send({ ...body, anyway: true }) }, "Send anyway") : null); } };
  const box = el("div", { class: "keyboard", tabindex: may ? "0" : null, role: "application", "aria-label": `Terminal ${id}: keys pressed here go to it` }, canvas);
  box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (!may || event.isComposing || event.metaKey) return;
    if (event.key === "Escape" && event.shiftKey) { box.blur(); return; } // the way out for who has only keys
    const key = event.ctrlKey && /^[a-z]$/i.test(event.key) ? `C-${event.key.toLowerCase()}` : event.shiftKey && event.key === "Tab" ? "BackTab" : NAMES[event.key] ?? (event.key.length === 1 && !event.ctrlKey && !event.altKey ? event.key : "");
    if (!key) return;
    event.preventDefault();
    typed(key);
  });
  box.addEventListener("paste", (/** @type {ClipboardEvent} */ event) => { event.preventDefault(); send({ text: event.clipboardData?.getData("text") ?? "", anyway: true }); });
  // Keys are sent in the order in which they were pressed, as many at once as have come together.
  /** @type {string[]} */
  let waiting = [];
  let sending = false;
  /** @param {string} key */
  async function typed(key) {
    waiting.push(key);
    if (sending) return;
    sending = true;
    while (waiting.length) { const keys = waiting.splice(0, 100); await send({ keys }); }
    sending = false;
  }
  const line = el("input", { type: "text", "aria-label": "A line to type", placeholder: "type a line", autocapitalize: "off", autocomplete: "off", spellcheck: "false" });
  const form = el("form", { class: "pair", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); const text = line.value; line.value = ""; send({ text, enter: true, anyway: UNSURE.includes(seen) }); } }, line, el("button", { class: "main" }, "Send"));
  const earlier = el("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      const page = await get(`/terminals/${id}/scrollback?count=200${first >= 0 ? `&before=${first}` : ""}`);
      back.hidden = false;
      back.prepend(document.createTextNode(page.lines.map(oneLineKept).join("\n") + "\n"));
      first = page.first;
      earlier.disabled = !first;
    } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  } }, "History");
  const take = el("button", { type: "button", class: "quiet", onclick: async () => {
    const cols = Math.max(20, Math.min(300, Math.floor(where.clientWidth / (screen.wide ?? 8.4)) - 2)), rows = Math.max(10, Math.min(100, Math.floor((innerHeight - 220) / (screen.high ?? 18))));
    try { await post(`/terminals/${id}/size`, { cols, rows, take: true }); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  } }, "Fit to window");
  const share = el("button", { type: "button", class: "quiet", onclick: async () => {
    try { const made = await post(`/terminals/${id}/share`); fill(problem, "Anyone with this link can watch for an hour: ", el("code", null, made.url)); } catch (error) { fill(problem, /** @type {Error} */ (error).message); }
  } }, "Share");
  fill(where, el("div", { class: "terminal" }, el("div", { class: "line" }, title ? el("h2", null, title) : el("h1", null, id), state, title ? null : el("a", { href: "#/terminals" }, "all")), back, box,
    may ? [el("div", { class: "keyrow" }, ROW.map(([word, key]) => el("button", { type: "button", onclick: () => typed(key) }, word)), take, earlier, share), form] : el("p", { class: "watching" }, "watching", earlier), problem));
  let again = 0, away = false;
  const look = () => follow(`screen:${id}`, (frame) => {
    if (frame.error) {
      away = true;
      fill(problem, frame.error.message);
      again = setTimeout(() => { stop(); stop = look(); }, 1500); // it may be starting, or its node be away for a while
      return;
    }
    if (away) { away = false; fill(problem); }
    screen.take(frame);
    seen = frame.state;
    canvas.style.maxWidth = `${Math.ceil(screen.cols * (screen.wide ?? 8))}px`;
    canvas.style.minWidth = `${Math.ceil(screen.cols * (screen.wide ?? 8) * LEAST / screen.size)}px`; // what does not fit is moved sideways
    setText(state, frame.ended !== null && frame.ended !== undefined ? `ended with ${frame.ended}` : [frame.state, frame.message, frame.title].filter(Boolean).join(" · "));
  }, { level: "focus" });
  let stop = look();
  if (may && !matchMedia("(max-width: 700px)").matches) box.focus();
  return () => { clearTimeout(again); stop(); };
}

/** @param {string} text */
const oneLineKept = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]/g, "�");

// The words for states, times and amounts. A state is a word and a shape, never a colour alone.

import { el, oneLine } from "./text.js";

/** @type {Record<string, [string, string, string]>} state -> shape, word, kind */
const STATES = {
  queued: ["○", "waiting", "calm"],
  placed: ["◔", "starting", "busy"],
  running: ["▶", "working", "busy"],
  asking: ["◆", "asks", "ask"],
  done: ["✓", "done", "good"],
  failed: ["✕", "failed", "bad"],
  cancelled: ["⊘", "cancelled", "calm"],
  skipped: ["↷", "skipped", "calm"],
};
/** @type {Record<string, [string, string, string]>} */
const NEEDS = {
  failed: ["✕", "failed", "bad"],
  review: ["◧", "to review", "good"],
  budget: ["▣", "out of budget", "bad"],
  stalled: ["◌", "stalled", "bad"],
  lost: ["◌", "lost", "bad"],
};

/** @param {any} row @returns {[string, string, string]} */
export function stateOf(row) {
  if (row.ask || row.open_ask) return STATES.asking;  // also one that is parked until someone answers
  if (row.needs && NEEDS[row.needs] && row.state !== "asking") return NEEDS[row.needs];
  if (row.change) return ["◔", oneLine(row.change), "calm"];
  return STATES[row.state] ?? ["?", oneLine(row.state) || "unknown", "calm"];
}

/** @param {any} row */
export function badge(row) {
  const [shape, word, kind] = stateOf(row);
  return el("span", { class: `badge ${kind}` }, el("i", { "aria-hidden": "true" }, shape), ` ${word}`);
}

/** @param {any} row what it does now, in words */
export function nowOf(row) {
  if (row.ask) return oneLine(row.ask.command || row.ask.headline || row.ask.text);
  if (row.now) return oneLine(row.now);
  if (row.why) return oneLine(row.why);
  if (row.stat) return oneLine(row.stat);
  return "";
}

/** What became of the work: its check, its size, what was denied. @param {any} row */
export function endOf(row) {
  const [, files] = /^(\d+) file/.exec(row.stat ?? "") ?? [], [, more] = /(\d+) insertion/.exec(row.stat ?? "") ?? [], [, less] = /(\d+) deletion/.exec(row.stat ?? "") ?? [];
  const check = row.verified === true ? "✓ check passed" : row.verified === false ? "✕ check failed" : files ? "not checked" : "";
  return [check, files ? `${files} ${files === "1" ? "file" : "files"} +${more ?? 0} −${less ?? 0}` : row.state === "done" ? "no files changed" : "", row.denied ? `${row.denied} denied` : ""].filter(Boolean).join(" · ");
}

/** @param {number} number */
export const short = (number) => number >= 1e6 ? `${(number / 1e6).toFixed(1)}M` : number >= 1000 ? `${(number / 1000).toFixed(number >= 1e4 ? 0 : 1)}k` : String(number);
/** What a list says of an order's use: the list itself says once where no price is known. @param {any} row */
export const used = (row) => row.tokens ? `${short(row.tokens)} tok${hasPrice(row) ? ` · $${row.usd.toFixed(2)}` : ""}` : "";
/** @param {any} row */
export const hasPrice = (row) => row.usd !== null && row.usd !== undefined;
/** @param {any} row */
export const cost = (row) => row.tokens ? `${short(row.tokens)} tok · ${hasPrice(row) ? `$${row.usd.toFixed(2)}` : "price unknown"}` : "";

// Times, as people say them. The server's clock is the one that counts.

let ahead = 0;

/** @param {number} now the server's time, in seconds */
export function setServerTime(now) { ahead = now - Date.now() / 1000; }
export const serverNow = () => Date.now() / 1000 + ahead;

/** @param {number} seconds @returns {string} */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

/** @param {number} seconds @returns {string} as a watch shows it: 0:41, 12:05, 1:02:33 */
export function watch(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

// Made once: to make one takes as long as to format hundreds of times.
const STAMP = new Intl.DateTimeFormat([], { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hour12: false });
/** @param {number} when @returns {string} */
export const clock = (when) => new Date(when * 1000).toLocaleTimeString([], { hour12: false });
/** @param {number} when @returns {string} */
export const stamp = (when) => STAMP.format(when * 1000);

/** @type {Record<string, (seconds: number) => string>} */
const LENGTHS = { watch, busy: (seconds) => `for ${watch(seconds)}`, for: (seconds) => `for ${span(seconds)}`, ago: (seconds) => `${span(seconds)} ago`, left: (seconds) => seconds > 0 ? span(seconds) : "now" };
export const ENDED = ["done", "failed", "cancelled", "skipped"];
/** How the time of an order's last change is told: since when it is so, or how long ago it ended. @param {any} row */
export const told = (row) => ENDED.includes(row.state) ? "ago" : "for";

/** How old something is, or how long until it is; counts by itself. <age-of at="…" as="watch|busy|for|ago|left"> */
class AgeOf extends HTMLElement {
  static observedAttributes = ["at", "as"];
  connectedCallback() { ticking.add(this); this.show(); }
  disconnectedCallback() { ticking.delete(this); }
  /** @param {string} name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(name, before, now) {
    if (before === now) return;
    if (name === "at" && Number(now)) this.title = stamp(Number(now));
    this.show();
  }
  show() {
    const at = Number(this.getAttribute("at")), as = this.getAttribute("as");
    if (!at) return;
    const seconds = as === "left" ? at - serverNow() : serverNow() - at;
    const text = LENGTHS[as ?? ""]?.(seconds) ?? span(seconds);
    if (this.textContent !== text) this.textContent = text;
  }
}
/** @type {Set<AgeOf>} */
const ticking = new Set();
customElements.define("age-of", AgeOf);
setInterval(() => { if (!document.hidden) for (const each of ticking) each.show(); }, 1000);

// The words and shapes for states: never a colour alone.

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
  if (row.ask || row.open_ask) return STATES.asking;  // also one that is parked until somebody answers
  if (row.needs && NEEDS[row.needs] && row.state !== "asking") return NEEDS[row.needs];
  return STATES[row.state] ?? ["?", oneLine(row.state) || "unknown", "calm"];
}

/** @param {any} row */
export function badge(row) {
  const [shape, word, kind] = stateOf(row);
  return el("span", { class: `badge ${kind}` }, el("i", { "aria-hidden": "true" }, shape), ` ${word}`);
}

/** @param {any} row what it does now, in words */
export function nowOf(row) {
  if (row.ask) return oneLine(row.ask.command || row.ask.text);
  if (row.now) return oneLine(row.now);
  if (row.why) return oneLine(row.why);
  if (row.stat) return oneLine(row.stat);
  return "";
}

/** @param {number} number */
export const short = (number) => number >= 1e6 ? `${(number / 1e6).toFixed(1)}M` : number >= 1000 ? `${(number / 1000).toFixed(number >= 1e4 ? 0 : 1)}k` : String(number);
/** @param {any} row */
export const cost = (row) => row.tokens ? `${short(row.tokens)} tok · ${row.usd === null || row.usd === undefined ? "price unknown" : `$${row.usd.toFixed(2)}`}` : "";

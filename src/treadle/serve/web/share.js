// One terminal, only to watch, by a link that expires.

import { Screen } from "./screen.js";
import { oneLine } from "./text.js";

const AGAIN = 2000; // milliseconds before the next try when the line broke
const get = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const canvas = /** @type {HTMLCanvasElement} */ (get("screen"));
const screen = new Screen(canvas, 14);
let over = false;

/** @param {any} frame @param {number} until */
function show(frame, until) {
  screen.take(frame);
  canvas.style.maxWidth = `${Math.ceil(screen.cols * (screen.wide ?? 8))}px`;
  canvas.style.minWidth = `${Math.floor(screen.cols * 4.4)}px`;
  get("name").textContent = frame.id;
  over = frame.ended !== null;
  get("state").textContent = over ? `ended with ${frame.ended}` : oneLine([frame.state, frame.message].filter(Boolean).join(" · "));
  get("until").textContent = `You watch only, until ${new Date(until * 1000).toLocaleString()}.`;
}

/** @param {string} text */
function line(text) {
  if (!text) return;
  const given = JSON.parse(text);
  if (given.frame) show(given.frame, given.until);
  if (given.over) { over = true; get("problem").textContent = given.over; get("state").textContent = ""; }
}

async function follow() {
  const answer = await fetch("/share/screen", { headers: { "x-treadle-share": location.hash.slice(1) } });
  if (!answer.ok || !answer.body) {
    const { detail } = await answer.json();
    over = answer.status < 500 && answer.status !== 429;
    throw new Error(detail ?? `the server answered ${answer.status}`);
  }
  get("problem").textContent = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(line);
  }
}

while (!over) {
  try { await follow(); } catch (error) { get("problem").textContent = /** @type {Error} */ (error).message; get("state").textContent = ""; }
  if (!over) await new Promise((done) => setTimeout(done, AGAIN));
}

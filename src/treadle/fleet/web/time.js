// Times as people say them. The server's clock is the one that counts.

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

/** @param {number} when @returns {string} */
export const clock = (when) => new Date(when * 1000).toLocaleTimeString([], { hour12: false });
/** @param {number} when @returns {string} */
export const stamp = (when) => new Date(when * 1000).toLocaleString([], { hour12: false });

/** How old something is, or how long until it is; counts by itself. <age-of at="…" as="watch|span|left"> */
class AgeOf extends HTMLElement {
  static observedAttributes = ["at", "as"];
  connectedCallback() { ticking.add(this); this.show(); }
  disconnectedCallback() { ticking.delete(this); }
  attributeChangedCallback() { this.show(); }
  show() {
    const at = Number(this.getAttribute("at")), as = this.getAttribute("as");
    if (!at) return;
    const seconds = as === "left" ? at - serverNow() : serverNow() - at;
    const text = as === "watch" ? watch(seconds) : as === "left" ? (seconds > 0 ? span(seconds) : "now") : span(seconds);
    if (this.textContent !== text) this.textContent = text;
  }
}
/** @type {Set<AgeOf>} */
const ticking = new Set();
customElements.define("age-of", AgeOf);
setInterval(() => { if (!document.hidden) for (const each of ticking) each.show(); }, 1000);

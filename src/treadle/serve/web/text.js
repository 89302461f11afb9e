// Text of agents is hostile: it becomes text nodes and nothing else, with what would not show made visible.

// Escape sequences of terminals, in both of their forms.
const ESCAPES = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?/g;
// What turns the direction of writing, takes no room, or is a control character other than newline and tab.
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const COMBINING = /(\p{M}{4})\p{M}+/gu;

/** @param {unknown} value @returns {string} what an agent said, so that it can do nothing but be read */
export function plain(value) {
  const text = typeof value === "string" ? value : value === null || value === undefined ? "" : String(value);
  return text
    .replace(/\r\n?/g, "\n")
    .replace(ESCAPES, "")
    .replace(HIDDEN, (letter) => `⟨U+${/** @type {number} */ (letter.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}⟩`)
    .replace(COMBINING, "$1…");
}

/** @param {unknown} value */
export const oneLine = (value) => plain(value).replace(/\s+/g, " ").trim();

/**
 * Make an element. Children are nodes, or text, which is made plain.
 * @param {string} tag @param {Record<string, any> | null} [properties] @param {...any} children
 * @returns {any}
 */
export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, plain(value));
  }
  put(made, ...children);
  return made;
}

/** @param {Element} where @param {...any} children */
export function put(where, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    where.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
}

/** @param {Element} where @param {...any} children what it holds from now on */
export function fill(where, ...children) {
  where.replaceChildren();
  put(where, ...children);
}

/** Set text only where it changed, so that what is selected stays so. @param {Element} where @param {unknown} value */
export function setText(where, value) {
  const text = plain(value);
  if (where.textContent !== text) where.textContent = text;
}

/**
 * Text with the addresses in it as links that show where they lead.
 * @param {unknown} value @returns {Node[]}
 */
export function linked(value) {
  const parts = plain(value).split(/(https?:\/\/[^\s<>"'`⟨⟩)\]]+)/);
  return parts.map((part, place) => {
    if (place % 2 === 0) return document.createTextNode(part);
    let target;
    try { target = new URL(part); } catch { return document.createTextNode(part); }
    // The whole address is the text, in the form in which it would be opened: no name can look like another.
    return el("a", { href: target.href, rel: "noreferrer noopener", target: "_blank", class: "away" }, target.href);
  });
}

/** A line to be typed elsewhere. Only a page that came over https, or from this machine, may reach the clipboard. @param {string} line */
export function copyable(line) {
  const button = el("button", { type: "button", class: "quiet", hidden: !navigator.clipboard, onclick: async () => { await navigator.clipboard.writeText(line); setText(button, "Copied"); } }, "Copy");
  return el("div", { class: "copyable" }, el("pre", null, line), button);
}

/** @param {string} text tell it to who does not see the page */
export function announce(text) {
  const where = document.getElementById("said");
  if (where) where.textContent = plain(text);
}

/** @param {string} text what could not be done, for everybody to see until the next answer or another view; "" is nothing */
export function complain(text) {
  const where = document.getElementById("refused");
  if (!where) return;
  where.textContent = plain(text);
  where.hidden = !text;
}

// A terminal's screen, drawn as rows on a canvas: only those that changed.

import { plain } from "./text.js";

const GROUND = "#0c0f14", INK = "#d7dde6";
const [BOLD, FAINT, ITALIC, UNDERLINED, INVERSE, STRUCK] = [1, 2, 4, 8, 16, 32];

export class Screen {
  /** @param {HTMLCanvasElement} canvas @param {number} size of a letter, in pixels @param {number} [pause] milliseconds between two labels in words */
  constructor(canvas, size, pause = 200) {
    this.canvas = canvas;
    this.size = size;
    this.pause = pause;
    this.labelling = 0;
    this.cols = 0;
    this.lines = 0;
    /** @type {any[][]} */
    this.rows = [];
    /** @type {number[] | null} */
    this.cursor = null;
  }

  /** @param {any} frame */
  take(frame) {
    if (frame.full || frame.cols !== this.cols || frame.lines !== this.lines) {
      this.cols = frame.cols;
      this.lines = frame.lines;
      if (frame.full) this.rows = [];
      this.resize();
    }
    const dirty = new Set(Object.keys(frame.rows).map(Number));
    for (const number of dirty) this.rows[number] = frame.rows[number];
    if (this.cursor) dirty.add(this.cursor[1]);
    this.cursor = frame.cursor;
    if (this.cursor) dirty.add(this.cursor[1]);
    for (const number of dirty) this.draw(number);
    this.labelling ||= setTimeout(() => { this.labelling = 0; this.label(); }, this.pause);
  }

  /** For who hears it. To put all of it into words for every change would cost more than drawing it. */
  label() { this.canvas.setAttribute("aria-label", `Terminal: ${this.text().slice(-400)}`); }

  resize() {
    const scale = Math.min(2, devicePixelRatio || 1);
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
    this.scale = scale;
    this.high = Math.round(this.size * 1.3);
    pen.font = this.font(0);
    this.wide = pen.measureText("M").width || this.size * 0.6;
    this.canvas.width = Math.ceil(this.cols * this.wide * scale);
    this.canvas.height = Math.ceil(this.lines * this.high * scale);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen = pen;
    pen.fillStyle = GROUND;
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    for (let number = 0; number < this.lines; number += 1) this.draw(number);
  }

  /** @param {number} flags */
  font(flags) { return `${flags & ITALIC ? "italic " : ""}${flags & BOLD ? "bold " : ""}${this.size}px ui-monospace, Menlo, "DejaVu Sans Mono", monospace`; }

  /** @param {number} number */
  draw(number) {
    const { pen, wide = 8, high = 16 } = this;
    if (!pen || number >= this.lines) return;
    const top = number * high;
    pen.fillStyle = GROUND;
    pen.fillRect(0, top, this.cols * wide + 1, high);
    let col = 0;
    for (const [text, colour, ground, flags] of this.rows[number] ?? []) {
      const inverse = flags & INVERSE;
      const ink = inverse ? ground || GROUND : colour || INK, back = inverse ? colour || INK : ground;
      const cells = width(text);
      if (back) { pen.fillStyle = back; pen.fillRect(col * wide, top, cells * wide, high); }
      pen.fillStyle = ink;
      pen.globalAlpha = flags & FAINT ? 0.6 : 1;
      pen.font = this.font(flags);
      pen.textBaseline = "middle";
      if (/^[\x20-\x7e]*$/.test(text)) pen.fillText(text, col * wide, top + high / 2);
      else { let at = col; for (const letter of text) { pen.fillText(letter, at * wide, top + high / 2); at += width(letter); } }
      if (flags & UNDERLINED) pen.fillRect(col * wide, top + high - 2, cells * wide, 1);
      if (flags & STRUCK) pen.fillRect(col * wide, top + high / 2, cells * wide, 1);
      pen.globalAlpha = 1;
      col += cells;
    }
    if (this.cursor?.[1] === number) { pen.fillStyle = "rgba(215, 221, 230, .6)"; pen.fillRect(this.cursor[0] * wide, top, wide, high); }
  }

  text() { return this.rows.map((row) => (row ?? []).map(([text]) => plain(text)).join("").trimEnd()).join("\n").trim(); }
}

/** @param {string} text @returns {number} cells that it takes */
function width(text) {
  let cells = 0;
  for (const letter of text) {
    const code = /** @type {number} */ (letter.codePointAt(0));
    cells += code < 0x300 ? 1 : /\p{M}|\u200d|\ufe0f/u.test(letter) ? 0 : (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) || (code >= 0x1f300 && code <= 0x1faff) ? 2 : 1;
  }
  return cells;
}

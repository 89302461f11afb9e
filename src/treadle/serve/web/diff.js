// What an order changed: a diff, under each other or side by side, to comment on line by line; comments are sent together.

import { get, link, post } from "./server.js";
import { drafts, keep, setting } from "./store.js";
import { el, fill, oneLine, plain } from "./text.js";

const LINES_AT_ONCE = 1500;
const ROOM = matchMedia("(min-width: 900px)");  // for two files beside each other
const SIGNS = { add: "+", del: "−", same: " ", hunk: " " };

/** @typedef {{kind: "hunk" | "add" | "del" | "same", old?: number, now?: number, text?: string, parts?: [string, string][]}} Line */
/** @typedef {{path: string, lines: Line[], added: number, removed: number}} Changed */

/** Lines that stand beside each other: what was removed, and what was put in its place. @param {Line[]} lines @returns {[Line | null, Line | null][]} */
export function paired(lines) {
  /** @type {[Line | null, Line | null][]} */
  const rows = [];
  /** @type {Line[]} */
  let gone = [];
  /** @type {Line[]} */
  let come = [];
  const flush = () => { for (let at = 0; at < Math.max(gone.length, come.length); at += 1) rows.push([gone[at] ?? null, come[at] ?? null]); gone = []; come = []; };
  for (const line of lines) {
    if (line.kind === "del") { if (come.length) flush(); gone.push(line); } else if (line.kind === "add") come.push(line);
    else { flush(); rows.push([line, line]); }
  }
  flush();
  return rows;
}

/** @param {Line} line */
const codeOf = (line) => el("code", null, line.parts?.length ? line.parts.map(([kind, text]) => kind ? el("span", { class: `t-${kind}` }, text) : text) : line.text);

/** @param {HTMLElement} where @param {any} detail */
export function showChanges(where, detail) {
  const id = detail.order.id, key = `comments ${id}`;
  /** @type {{path: string, line: number, text: string}[]} */
  let comments = JSON.parse(drafts.get(key) || "[]");
  const bar = el("div", { class: "review-bar" }), files = el("div", { class: "files" });
  fill(where, bar, files);
  let shown = "";
  /** @type {{files: Changed[], plain?: string}} */
  let changes = { files: [] };
  const keepComments = () => { drafts.set(key, comments.length ? JSON.stringify(comments) : ""); showBar(now); };
  let now = detail;

  async function load() {
    const patch = now.order.result?.patch;
    if (!patch) { fill(files, el("p", { class: "empty" }, ["done", "failed", "cancelled"].includes(now.order.state) ? "It has no changes." : "Nothing to review yet: changes appear when the order ends.")); return; }
    if (shown === patch) return;
    shown = patch;
    fill(files, el("p", { class: "empty" }, "Loading the changes…"));
    try {
      changes = await get(`/orders/${id}/changes`);
      draw();
    } catch (error) { fill(files, el("p", { class: "problem" }, /** @type {Error} */ (error).message)); }
  }

  function draw() {
    let left = LINES_AT_ONCE;
    const beside = el("button", { type: "button", class: "quiet", hidden: !ROOM.matches, "aria-pressed": String(split()), onclick: () => { keep("diff", split() ? "under" : "beside"); draw(); } }, "Side by side");
    fill(files, el("div", { class: "bar" }, beside, el("span", { class: "small" }, "↑ ↓ line, Enter comment, Ctrl+Enter add it"), changes.plain ? el("span", { class: "small" }, `${oneLine(changes.plain)}.`) : null),
      changes.files.map((/** @type {Changed} */ file) => { const open = left > 0; left -= file.lines.length; return fileOf(file, open); }));
  }
  const split = () => ROOM.matches && setting("diff", "under") === "beside";

  /** @param {Changed} file @param {boolean} open */
  function fileOf(file, open) {
    const body = el("div", { class: "scroll" });
    const box = el("details", { class: "file" }, el("summary", null, el("code", null, file.path), " ", el("span", { class: "added" }, `+${file.added}`), " ", el("span", { class: "removed" }, `−${file.removed}`)), body);
    const begin = () => { if (!body.firstChild) { drawLines(file, body, 0); /** @type {HTMLElement | null} */ (body.querySelector("button.number:enabled"))?.setAttribute("tabindex", "0"); } };
    box.addEventListener("toggle", () => { if (box.open) begin(); });
    if (open) { box.open = true; begin(); }
    return box;
  }

  /** @param {Changed} file @param {HTMLElement} body @param {number} from */
  function drawLines(file, body, from) {
    const rows = el("div", { class: split() ? "diff beside" : "diff", role: "group", "aria-label": file.path, onkeydown: step });
    const lines = file.lines.slice(from, from + LINES_AT_ONCE);
    for (const [before, now] of split() ? paired(lines) : lines.map((line) => [null, line])) {
      const row = el("div", { class: "line" });
      if (!split() || now?.kind === "hunk") row.append(...cells(file, /** @type {Line} */ (now), row));
      else row.append(el("div", { class: `half ${before?.kind ?? "none"}` }, before ? cells(file, { ...before, now: 0 }, row) : null), el("div", { class: `half ${now?.kind ?? "none"}` }, now ? cells(file, { ...now, old: 0 }, row) : null));
      if (!split() || now?.kind === "hunk") row.classList.add(/** @type {Line} */ (now).kind);
      rows.append(row);
      for (const comment of comments.filter((each) => now?.now && each.path === file.path && each.line === now.now)) row.after(noteOf(comment));
    }
    body.append(rows);
    if (from + LINES_AT_ONCE < file.lines.length) {
      const more = el("button", { type: "button", class: "quiet", onclick: () => { more.remove(); drawLines(file, body, from + LINES_AT_ONCE); } }, `${file.lines.length - from - LINES_AT_ONCE} more lines`);
      body.append(more);
    }
  }

  /** Number, sign and text of a line. Only lines of the new file can be commented on. @param {Changed} file @param {Line} line @param {HTMLElement} row @returns {HTMLElement[]} */
  function cells(file, line, row) {
    const number = line.now || line.old;
    const button = line.kind === "hunk" ? el("span", { class: "number", "aria-hidden": "true" })
      : el("button", { type: "button", class: "number", tabindex: "-1", disabled: !line.now || link.right !== "all", "aria-label": line.now ? `Comment on line ${line.now}` : `Removed line ${line.old}`, onclick: () => write(file, line.now ?? 0, row, button) }, number ? String(number) : "");
    return [button, el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[line.kind]), codeOf(line)];
  }

  /** Up and down go from line to line; one line of a file is reached by Tab. @param {KeyboardEvent} event */
  function step(event) {
    const here = /** @type {HTMLElement} */ (event.target);
    if (!here.matches("button.number") || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    const all = /** @type {HTMLElement[]} */ ([...files.querySelectorAll("details[open] button.number:enabled")]);
    const next = all[all.indexOf(here) + (event.key === "ArrowDown" ? 1 : -1)];
    event.preventDefault();
    if (!next) return;
    if (next.closest(".file") === here.closest(".file")) here.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  /** @param {{path: string, line: number, text: string}} comment */
  function noteOf(comment) {
    const note = el("div", { class: "comment" }, el("p", null, comment.text), el("button", { type: "button", class: "quiet", onclick: () => { comments = comments.filter((each) => each !== comment); note.remove(); keepComments(); } }, "Remove"));
    return note;
  }

  /** @param {Changed} file @param {number} line @param {HTMLElement} row @param {HTMLElement} from */
  function write(file, line, row, from) {
    const text = el("textarea", { rows: "2", "aria-label": `Comment on ${plain(file.path)}:${line}` });
    const leave = () => { box.remove(); from.focus(); };
    const add = () => {
      if (!text.value.trim()) return leave();
      const comment = { path: file.path, line, text: text.value.trim() };
      comments.push(comment);
      box.replaceWith(noteOf(comment));
      keepComments();
      from.focus();
    };
    text.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); add(); }
      if (event.key === "Escape") { event.stopPropagation(); leave(); }
    });
    const box = el("div", { class: "comment writing" }, text, el("button", { type: "button", class: "main", onclick: add }, "Add comment"), el("button", { type: "button", class: "quiet", onclick: leave }, "Go back"));
    row.after(box);
    text.focus();
  }

  /** @param {any} detail */
  function showBar(detail) {
    const result = detail.order.result ?? {}, may = link.right === "all", refused = (result.not_landed ?? "").includes("--anyway");
    /** @param {boolean} anyway */
    const land = async (anyway) => { await post(`/orders/${id}/land`, { verify: verify.value, anyway }); location.hash = "#/trains"; };
    const problem = el("p", { class: "problem", role: "alert" });
    /** @param {() => Promise<any>} work */
    const tried = (work) => async () => { try { await work(); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } };
    const whole = el("input", { type: "text", class: "reason", placeholder: "overall comment (optional)", "aria-label": "Overall comment" });
    const verify = el("input", { type: "text", class: "reason", value: detail.spec.verify ?? "", placeholder: "check, such as make test", id: "land-check" });
    verify.value = detail.spec.verify ?? "";
    const back = el("button", { type: "button", class: "main", disabled: !may, onclick: tried(async () => {
      const all = whole.value.trim() ? [...comments, { text: whole.value.trim() }] : comments;
      const made = await post(`/orders/${id}/send-back`, { comments: all });
      comments = [];
      keepComments();
      location.hash = `#/order/${made.id}`;
    }) }, comments.length ? `Send ${comments.length} comment${comments.length > 1 ? "s" : ""} back` : "Send back");
    fill(bar,
      el("p", { class: "small" }, verdict(detail)),
      result.patch && may && !result.merged && !result.discarded ? el("div", { class: "decide" },
        el("div", { class: "pair" }, whole, back),
        el("label", { class: "small", for: "land-check" }, "Check of this work, in addition to the branch's"), el("div", { class: "pair" }, verify, el("button", { type: "button", class: "allow", onclick: tried(() => land(refused)) }, refused ? "Land anyway" : "Land")),
        el("button", { type: "button", class: "deny", onclick: tried(async () => { if (confirm("Discard this work? The receipt and the patch are kept.")) await post(`/orders/${id}/discard`); }) }, "Discard")) : null,
      problem);
  }

  /** @param {any} detail */
  function verdict(detail) {
    const result = detail.order.result ?? {};
    if (result.merged) return `Landed as ${oneLine(result.merged).slice(0, 12)}.`;
    if (result.not_landed) return `Did not land: ${oneLine(result.not_landed)}.`;
    if (result.discarded) return "Discarded.";
    const checked = result.verified === true ? "verified" : result.verified === false ? "its check failed" : "not verified";
    return result.patch ? `${oneLine(result.stat) || `${result.files ?? "?"} files`}; ${checked}.` : "";
  }

  showBar(detail);
  load();
  let mark = "";
  return {
    update: (/** @type {any} */ next) => {
      now = next;
      const fresh = JSON.stringify([next.order.result, next.order.state, link.right]);
      if (fresh !== mark && !bar.contains(document.activeElement)) { mark = fresh; showBar(next); }
      load();
    },
  };
}

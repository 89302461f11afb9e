// What an order changed: a unified diff to comment on, line by line; comments are sent together.

import { get, link, post } from "./server.js";
import { board, drafts } from "./store.js";
import { el, fill, oneLine, plain } from "./text.js";

const LINES_AT_ONCE = 1500;

/** @typedef {{path: string, lines: {kind: string, old: number, now: number, text: string}[], added: number, removed: number}} Changed */

/** @param {string} patch @returns {Changed[]} */
export function parse(patch) {
  /** @type {Changed[]} */
  const files = [];
  let old = 0, now = 0, inside = false;
  for (const line of patch.split("\n")) {
    const file = files[files.length - 1];
    if (line.startsWith("diff --git ")) { files.push({ path: line.slice(11).split(" b/").pop() ?? "", lines: [], added: 0, removed: 0 }); inside = false; }
    else if (!file) continue;
    else if (!inside && line.startsWith("+++ ") && !line.startsWith("+++ /dev/null")) file.path = line.slice(4).replace(/^"?b\//, "").replace(/"$/, "").split("\t")[0];
    else if (line.startsWith("@@ ")) {
      const found = /@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
      old = Number(found?.[1] ?? 0); now = Number(found?.[2] ?? 0); inside = true;
      file.lines.push({ kind: "hunk", old: 0, now: 0, text: line });
    } else if (inside && line.startsWith("+")) { file.lines.push({ kind: "add", old: 0, now, text: line.slice(1) }); now += 1; file.added += 1; }
    else if (inside && line.startsWith("-")) { file.lines.push({ kind: "del", old, now: 0, text: line.slice(1) }); old += 1; file.removed += 1; }
    else if (inside && line.startsWith(" ")) { file.lines.push({ kind: "same", old, now, text: line.slice(1) }); old += 1; now += 1; }
    else if (!inside && /^(Binary|GIT binary|new file|deleted file|rename|old mode|new mode|similarity)/.test(line)) file.lines.push({ kind: "hunk", old: 0, now: 0, text: line });
  }
  return files;
}

/** @param {HTMLElement} where @param {any} detail */
export function showChanges(where, detail) {
  const id = detail.order.id, key = `comments ${id}`;
  /** @type {{path: string, line: number, text: string}[]} */
  let comments = JSON.parse(drafts.get(key) || "[]");
  const bar = el("div", { class: "review-bar" }), files = el("div", { class: "files" }), merging = el("div", { class: "merging", role: "status" });
  fill(where, bar, merging, files);
  let shown = "";
  const keepComments = () => { drafts.set(key, comments.length ? JSON.stringify(comments) : ""); showBar(now); };
  let now = detail;

  async function load() {
    const patch = now.order.result?.patch;
    if (!patch) { fill(files, el("p", { class: "empty" }, ["done", "failed", "cancelled"].includes(now.order.state) ? "It has left no changes." : "There is nothing to review yet: the changes come when it ends.")); return; }
    if (shown === patch) return;
    shown = patch;
    fill(files, el("p", { class: "empty" }, "The changes are being read…"));
    try {
      const parsed = parse(await get(`/orders/${id}/diff`));
      let left = LINES_AT_ONCE;
      fill(files, parsed.map((file) => { const open = left > 0; left -= file.lines.length; return fileOf(file, open); }));
    } catch (error) { fill(files, el("p", { class: "problem" }, /** @type {Error} */ (error).message)); }
  }

  /** @param {Changed} file @param {boolean} open */
  function fileOf(file, open) {
    const body = el("div", { class: "scroll" });
    const box = el("details", { class: "file" }, el("summary", null, el("code", null, file.path), " ", el("span", { class: "added" }, `+${file.added}`), " ", el("span", { class: "removed" }, `−${file.removed}`)), body);
    const draw = () => { if (!body.firstChild) drawLines(file, body, 0); };
    box.addEventListener("toggle", () => { if (box.open) draw(); });
    if (open) { box.open = true; draw(); }
    return box;
  }

  /** @param {Changed} file @param {HTMLElement} body @param {number} from */
  function drawLines(file, body, from) {
    const rows = el("div", { class: "diff", role: "group", "aria-label": file.path });
    for (const line of file.lines.slice(from, from + LINES_AT_ONCE)) {
      const number = line.now || line.old;
      const row = el("div", { class: `line ${line.kind}`, "data-at": `${file.path}:${line.now}` },
        line.kind === "hunk" ? el("span", { class: "number", "aria-hidden": "true" }) : el("button", { type: "button", class: "number", disabled: !line.now || link.right !== "all", "aria-label": line.now ? `Comment on line ${line.now}` : `Removed line ${line.old}`, onclick: () => write(file, line.now, row) }, number ? String(number) : ""),
        el("span", { class: "sign", "aria-hidden": "true" }, line.kind === "add" ? "+" : line.kind === "del" ? "−" : " "), el("code", null, line.text));
      rows.append(row);
      for (const comment of comments.filter((each) => each.path === file.path && each.line === line.now && line.now)) row.after(noteOf(comment));
    }
    body.append(rows);
    if (from + LINES_AT_ONCE < file.lines.length) {
      const more = el("button", { type: "button", class: "quiet", onclick: () => { more.remove(); drawLines(file, body, from + LINES_AT_ONCE); } }, `${file.lines.length - from - LINES_AT_ONCE} more lines`);
      body.append(more);
    }
  }

  /** @param {{path: string, line: number, text: string}} comment */
  function noteOf(comment) {
    const note = el("div", { class: "comment" }, el("p", null, comment.text), el("button", { type: "button", class: "quiet", onclick: () => { comments = comments.filter((each) => each !== comment); note.remove(); keepComments(); } }, "Remove"));
    return note;
  }

  /** @param {Changed} file @param {number} line @param {HTMLElement} row */
  function write(file, line, row) {
    const text = el("textarea", { rows: "2", "aria-label": `Comment on ${plain(file.path)}:${line}` });
    const box = el("div", { class: "comment writing" }, text, el("button", { type: "button", class: "main", onclick: () => {
      if (!text.value.trim()) return box.remove();
      const comment = { path: file.path, line, text: text.value.trim() };
      comments.push(comment);
      box.replaceWith(noteOf(comment));
      keepComments();
    } }, "Add comment"), el("button", { type: "button", class: "quiet", onclick: () => box.remove() }, "Leave it"));
    row.after(box);
    text.focus();
  }

  /** @param {any} detail */
  function showBar(detail) {
    const result = detail.order.result ?? {}, may = link.right === "all";
    const problem = el("p", { class: "problem", role: "alert" });
    /** @param {() => Promise<any>} work */
    const tried = (work) => async () => { try { await work(); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } };
    const whole = el("input", { type: "text", class: "reason", placeholder: "on the work as a whole (optional)", "aria-label": "Comment on the work as a whole" });
    const verify = el("input", { type: "text", class: "reason", value: detail.spec.verify ?? "", placeholder: "check, such as make test", "aria-label": "Check to run after the merge" });
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
        el("div", { class: "pair" }, verify, el("button", { type: "button", class: "allow", onclick: tried(() => post("/merges", { orders: [id], verify: verify.value })) }, "Merge")),
        el("button", { type: "button", class: "deny", onclick: tried(async () => { if (confirm("Throw this work away? Receipt and patch stay.")) await post(`/orders/${id}/discard`); }) }, "Discard")) : null,
      problem);
  }

  /** @param {any} detail */
  function verdict(detail) {
    const result = detail.order.result ?? {};
    if (result.merged) return `Merged as ${oneLine(result.merged).slice(0, 12)}.`;
    if (result.discarded) return "Thrown away.";
    const checked = result.verified === true ? "verified" : result.verified === false ? "its check failed" : "not verified";
    return result.patch ? `${oneLine(result.stat) || `${result.files ?? "?"} files`}; ${checked}.` : "";
  }

  function showMerges() {
    const mine = board.merges.filter((each) => each.orders.includes(id));
    const last = mine[mine.length - 1];
    if (!last) return merging.replaceChildren();
    const step = last.steps.find((/** @type {any} */ each) => each.order === id);
    fill(merging, last.state === "running"
      ? el("p", { class: "live" }, last.verify ? `Merging and running ${last.verify} ` : "Merging ", el("age-of", { at: last.started, as: "watch" }))
      : el("p", { class: last.state === "merged" ? "good" : "bad" }, last.state === "merged" ? `Merged into ${last.into}${last.verify ? `, and ${last.verify} passes` : ""}.` : `Not merged: ${last.problem || step?.why || "stopped"}`),
    step?.conflicts?.length ? el("ul", null, step.conflicts.map((/** @type {string} */ name) => el("li", null, `conflict in ${name}`))) : null);
  }
  board.changed.add(showMerges);
  showMerges();
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
    stop: () => { board.changed.delete(showMerges); },
  };
}

// The trains: what is built on what and how it was judged, what was left out and who does it over, what landed.

import { follow, link, post } from "./server.js";
import { el, fill, oneLine } from "./text.js";
import { parts } from "./places.js";
import { table } from "./receipt.js";
import { short, stamp } from "./words.js";

/** @param {HTMLElement} where */
export function show(where) {
  const body = el("div"), problem = el("p", { class: "problem", role: "alert" });
  fill(where, el("h1", { class: "unseen" }, "Trains"), parts("Trains"), problem, body);
  /** @param {string} path @param {any} [given] */
  const act = async (path, given) => { try { await post(path, given); fill(problem); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } };
  return follow("trains", (message) => {
    if (message.error) { fill(problem, message.error.message); return; }
    if (!message.value.length) fill(body, el("p", { class: "empty" }, "Nothing has landed yet. Press Land in a finished order, or let an order land by itself: ", el("code", null, "treadle fleet submit … --land main"), "."));
    else fill(body, message.value.map((/** @type {any} */ train) => one(train, act)));
  });
}

/** @param {any} train @param {(path: string, given?: any) => void} act */
function one(train, act) {
  const may = link.right === "all", known = train.changes ?? [], landed = train.history ?? [];
  const waiting = known.filter((/** @type {any} */ each) => each.state !== "left out"), left = known.filter((/** @type {any} */ each) => each.state === "left out");
  return el("section", { class: "train", "aria-label": `Train of ${oneLine(train.branch)}` },
    el("h2", null, train.branch, " ", el("span", { class: "small" }, train.repository)),
    el("p", { class: "small" }, `check: ${oneLine(train.verify) || "none"} · ${train.slots} at once · ${train.landed} landed · ${train.checks} checks, ${train.flaky} flaky · ${Math.round(train.reds * 100)} % of checks failed recently`),
    train.delay && !train.paused ? el("p", { class: "stopped", role: "status" }, `■ delayed since ${stamp(train.delay.since)}, tried ${train.delay.tries} times, again at ${stamp(train.delay.next)}: ${oneLine(train.delay.why)}`) : null,
    train.paused ? el("p", { class: "stopped", role: "status" }, `■ paused since ${stamp(train.paused.at)}, by ${oneLine(train.paused.by)}: ${oneLine(train.paused.what)} `, may ? el("button", { type: "button", onclick: () => act(`/trains/${train.name}/resume`) }, "Resume") : null)
      : may && waiting.length ? el("p", null, el("button", { type: "button", class: "quiet", onclick: () => act(`/trains/${train.name}/pause`, {}) }, "Pause")) : null,
    row(train),
    waiting.length ? [el("h3", null, `Waiting to land: ${waiting.length}`, " ", train.oldest ? el("span", { class: "small" }, "oldest: ", el("age-of", { at: train.oldest })) : null), table(["Order", "Title", "Agent", "Since", "State"], waiting.map((/** @type {any} */ each) => [name(each.order), oneLine(each.title ?? ""), oneLine(each.agent ?? ""), el("age-of", { at: each.at }), [oneLine(each.words), each.by ? [" ", name(each.by)] : null]]))] : el("p", { class: "empty" }, "Nothing waits."),
    left.length ? [el("h3", null, "Left out"), table(["Order", "Why", "Output", "Again", "When"], left.map((/** @type {any} */ out) => [[name(out.order), " ", oneLine(out.title ?? "")], `${mark(out.kind)} ${oneLine(out.words)}`, oneLine((out.output ?? "").split("\n").slice(-2).join(" ")), may ? el("button", { type: "button", class: "quiet", onclick: () => act(`/orders/${out.order}/land`, { branch: train.branch }) }, "Try again") : "", stamp(out.at)]))] : null,
    landed.length ? [el("h3", null, "Landed"), table(["Commit", "Order", "Title", "Goal", "Agent", "Cost", "When"], landed.map((/** @type {any} */ each) => [el("code", null, each.commit.slice(0, 10)), [name(each.order), " ", el("a", { class: "small", href: `#/order/${each.order}/receipt` }, "receipt")], oneLine(each.title ?? ""), oneLine(each.goal ?? ""), oneLine(each.agent ?? ""), price(each.used), stamp(each.at)]))] : null);
}

/** The branch and the cars on it, each built on the one before. @param {any} train */
function row(train) {
  const cars = [...(train.row ?? []).map((/** @type {any} */ car) => ({ ...car, where: "in line" })), ...(train.apart ?? []).map((/** @type {any} */ car) => ({ ...car, where: "alone" }))];
  return el("ol", { class: "cars", "aria-label": "Changes, each built on the one before" },
    el("li", { class: "car tip" }, el("b", null, train.branch), el("code", null, (train.tip ?? "").slice(0, 10) || "unknown")),
    cars.map((car) => {
      const lands = (train.landing ?? []).includes(car.orders[0]), state = lands ? "lands" : car.verdict || (car.reds ? "checked again" : "being checked");
      return el("li", { class: `car ${lands ? "lands" : car.verdict || "open"} ${car.apart ? "apart" : ""}` }, el("b", null, `${lands ? "▶" : mark(car.verdict)} ${state}`), el("span", null, car.orders.map((/** @type {string} */ id) => [name(id), " "])), el("span", { class: "small" }, `${car.where}, on ${car.on.slice(0, 10)}`));
    }));
}

/** @param {string} kind a verdict, or why something was left out */
const mark = (kind) => ({ green: "✓", red: "✕", conflict: "⇄", refused: "⊘", person: "⊘", there: "✓" })[kind] ?? "◔";
/** @param {string} id */
const name = (id) => el("a", { href: `#/order/${id}` }, id);
/** @param {any} used */
function price(used) {
  if (!used) return "unknown";
  const tokens = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"].reduce((sum, each) => sum + (used[each] ?? 0), 0);
  if (!tokens) return "nothing measured";
  return `${short(tokens)} tok · ${used.usd === null || used.usd === undefined ? "price unknown" : `$${used.usd.toFixed(2)}`}`;
}

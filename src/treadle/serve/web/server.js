// The server: calls of the HTTP interface, and the one connection of this tab.

import { setServerTime } from "./words.js";

// Calls. What fails is an Error with the server's own words...

export class Failed extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// The cookie goes to every port of this machine, so the server also wants what only pages of this origin can read.
// The service worker has no such storage and reads it from the origin's cache.

const PROOF = "proof";
const proof = () => localStorage.getItem(PROOF) ?? "";
/** @returns {Record<string, string>} */
const proven = () => (proof() ? { "x-treadle-proof": proof() } : {});

/** @param {string} given */
async function keepProof(given) {
  localStorage.setItem(PROOF, given);
  if (self.caches) await (await caches.open("treadle")).put("/proof", new Response(given));
}

/** @param {string} method @param {string} path @param {any} [body] @param {Record<string, string>} [headers] */
async function request(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: { ...proven(), ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new Failed(0, "away", "the server does not answer; nothing was sent");
  }
  const text = await answer.text();
  if (/^application\/(problem\+)?json/.test(answer.headers.get("content-type") ?? "")) {
    const value = JSON.parse(text);
    if (!answer.ok) throw new Failed(answer.status, value.code ?? "", value.detail ?? answer.statusText);
    return value;
  }
  if (!answer.ok) throw new Failed(answer.status, "", text || answer.statusText);
  return text;
}

/** @param {string} path */
export const get = (path) => request("GET", `/api/v1${path}`);
/** @param {string} path @param {any} [body] @param {Record<string, string>} [headers] */
export const post = (path, body = {}, headers) => request("POST", `/api/v1${path}`, body, headers);
/** @param {string} path @param {any} body */
export const change = (path, body) => request("PUT", `/api/v1${path}`, body);
/** @param {string} path */
export const remove = (path) => request("DELETE", `/api/v1${path}`);
/** @param {string} code */
export async function signIn(code) {
  const signed = await request("POST", "/login", { code });
  await keepProof(signed.proof);
  return signed;
}

// The connection. Every topic knows the place that it has come to, and goes on from there...

const BEAT = 5000;
/** @typedef {(message: any) => void} Listener */
/** @type {Map<string, {listener: Listener, params: any, waits?: boolean}>} */
const topics = new Map();
/** @type {WebSocket | null} */
let socket = null;
let tries = 0, heard = 0, boot = "", lost = Date.now();
let timer = 0, nextTry = 0;

/** What the page is told of the connection itself. */
export const link = {
  live: false,
  since: 0,
  right: "watch",
  device: "",
  fleet: /** @type {any} */ ({ state: "none", why: "" }),
  version: "",
  newVersion: false,
  signedOut: false,
  get nextTry() { return nextTry; },
  /** @type {Set<() => void>} */
  changed: new Set(),
};

const told = () => { for (const call of link.changed) call(); };

/** @param {string} topic @param {Listener} listener @param {any} [params] @returns {() => void} call it to stop */
export function follow(topic, listener, params = {}) {
  topics.set(topic, { listener, params });
  say({ do: "sub", topic, params });
  return () => {
    if (topics.get(topic)?.listener !== listener) return;
    topics.delete(topic);
    say({ do: "unsub", topic });
  };
}

/** @param {string} topic @param {any} params what it would go on from, were the connection lost now */
export function remember(topic, params) {
  const found = topics.get(topic);
  if (found) found.params = { ...found.params, ...params };
}

/** @param {any} message */
function say(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

export function connect() {
  clearTimeout(timer);
  const mine = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket`, ["treadle", ...(proof() ? [`treadle.proof.${proof()}`] : [])]);
  socket = mine;
  mine.onmessage = (event) => { if (socket === mine) take(JSON.parse(event.data)); };
  mine.onclose = (event) => { if (socket === mine) gone(event.code); };
}

/** @param {any} message */
function take(message) {
  heard = Date.now();
  if (message.t === "hello") return welcome(message);
  if (message.now) setServerTime(message.now);
  const followed = topics.get(message.t);
  followed?.listener(message);
  if (followed) { followed.waits = message.error?.code === "no_fleet"; askAgain(message.t, followed); }
}

/** The server may be there before its fleet is. @param {string} topic @param {{params: any, waits?: boolean}} followed */
function askAgain(topic, followed) {
  if (followed.waits) setTimeout(() => { if (followed.waits && topics.get(topic) === followed) say({ do: "sub", topic, params: followed.params }); }, 1000);
}

/** @param {any} message */
function welcome(message) {
  setServerTime(message.now);
  if (link.version && link.version !== message.version) link.newVersion = true;
  Object.assign(link, { live: true, since: Date.now(), right: message.right, device: message.device, fleet: message.fleet });
  link.version ||= message.version;
  boot = message.boot;
  tries = 0;
  for (const [topic, { params }] of topics) say({ do: "sub", topic, params });
  say({ do: "visible", visible: !document.hidden });
  told();
}

/** @param {number} code */
function gone(code) {
  socket = null;
  if (link.live) lost = Date.now();
  link.live = false;
  if (code === 4401) link.signedOut = true;
  // Never give up; wait longer each time, up to ten seconds, and not all tabs at once.
  const wait = Math.min(10_000, 250 * 2 ** tries) * (0.75 + Math.random() / 2);
  tries += 1;
  nextTry = Date.now() + wait;
  timer = setTimeout(connect, wait);
  if (tries % 5 === 1 || code === 4401) checkSignedIn();
  told();
}

/** A refused connection does not say why; an ordinary request does. */
async function checkSignedIn() {
  try {
    const answer = await fetch("/api/v1/me", { credentials: "same-origin", headers: proven() });
    if (link.signedOut !== (answer.status === 401)) { link.signedOut = answer.status === 401; told(); }
  } catch { /* not there at all */ }
}

export const lostSince = () => lost;

/** Nothing was heard for too long: do not trust this connection any more. */
function distrust() {
  const old = socket;
  socket = null;
  old?.close();
  gone(0);
  connect();
}

setInterval(() => { if (socket && link.live && Date.now() - heard > 2.5 * BEAT) distrust(); }, 1000);
document.addEventListener("visibilitychange", () => {
  say({ do: "visible", visible: !document.hidden });
  if (document.hidden) return;
  if (!link.live) { tries = 0; if (!socket || socket.readyState === WebSocket.CLOSED) connect(); return; }
  // A phone that wakes may hold a dead connection: it has one beat to show that it lives.
  const asked = Date.now();
  say({ do: "ping" });
  setTimeout(() => { if (link.live && heard < asked) distrust(); }, 2000);
});
addEventListener("online", () => { if (!link.live) { tries = 0; connect(); } });
export const bootId = () => boot;

// Notifications while the page is closed: asked for by a person, on this device.

import { change, get, remove } from "./server.js";
import { el, fill } from "./text.js";

/** Why this browser cannot, in words; nothing when it can. */
function missing() {
  if (!isSecureContext) return "Notifications need https: see `treadle serve --help`, --tls-cert.";
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) return "This browser cannot show notifications. On an iPhone, add the page to the home screen first.";
  return "";
}

/** @param {HTMLElement} where */
export async function showPush(where) {
  const problem = el("p", { class: "problem", role: "alert" });
  const title = el("h2", null, "Notifications");
  const why = missing();
  if (why) return fill(where, title, el("p", { class: "small" }, why));
  /** @param {string} words @param {() => Promise<any>} work */
  const button = (words, work) => el("button", { type: "button", onclick: async () => { try { await work(); await showPush(where); } catch (error) { fill(problem, /** @type {Error} */ (error).message); } } }, words);
  try {
    const { key, on } = await get("/push");
    fill(where, title, on ? el("p", { class: "small" }, "This device gets notifications, also while the page is closed.") : el("p", { class: "small" }, "Get notified of questions, failures and finished work, even with the page closed."),
      on ? button("Stop", turnOff) : button("Notify this device", () => turnOn(key)), problem);
  } catch (error) { fill(where, title, problem); fill(problem, /** @type {Error} */ (error).message); }
}

/** @param {string} key */
async function turnOn(key) {
  if (await Notification.requestPermission() !== "granted") throw new Error("Notifications are blocked in the browser's settings for this site.");
  await navigator.serviceWorker.register("/sw.js");
  const worker = await navigator.serviceWorker.ready;
  const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = made.toJSON();
  await change("/push", { endpoint, keys });
}

async function turnOff() {
  const worker = await navigator.serviceWorker.getRegistration();
  await (await worker?.pushManager.getSubscription())?.unsubscribe();
  await remove("/push");
}

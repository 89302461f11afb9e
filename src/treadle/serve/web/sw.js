// Hears of what needs a person while the page is closed: one notification for each cause, gone when it is answered.
// The server has made hidden characters visible already, and a notification shows text only.

/** @typedef {{tag: string, order: string, title: string, body: string, number?: number | null, over?: boolean}} Told */
const worker = /** @type {any} */ (self);

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener("push", (/** @type {any} */ event) => event.waitUntil(tell(event.data.json())));

/** @param {Told} told */
async function tell(told) {
  const { tag, title, body } = told;
  if (told.over) {
    // A push has to show something: this takes the place of the question without a sound, and goes at once.
    await worker.registration.showNotification(title, { tag, body, silent: true });
    for (const shown of await worker.registration.getNotifications({ tag })) shown.close();
    return;
  }
  const tabs = await worker.clients.matchAll({ type: "window" });
  if (tabs.some((/** @type {any} */ tab) => tab.visibilityState === "visible" && tab.focused)) return; // it is on the page
  const actions = told.number ? [{ action: "allow", title: "Allow once" }, { action: "deny", title: "Deny" }] : [];
  await worker.registration.showNotification(title, { tag, body, data: told, actions, icon: "/icon.svg", requireInteraction: true });
}

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(act(event.action, event.notification.data));
});

/** @param {string} action @param {Told} told */
async function act(action, told) {
  if (action && told.number) {
    const kept = await caches.match("/proof", { cacheName: "treadle" }); // server.js keeps it there
    const proof = kept ? await kept.text() : "";
    const answer = await fetch(`/api/v1/orders/${told.order}/answer`, {
      method: "POST", credentials: "same-origin", headers: { "content-type": "application/json", "x-treadle-proof": proof },
      body: JSON.stringify({ decision: action, number: told.number }),
    }).catch(() => null);
    if (answer?.ok) return;
  }
  const url = told.order ? `/#/order/${told.order}` : "/#/trains";
  const [tab] = await worker.clients.matchAll({ type: "window" });
  if (!tab) return worker.clients.openWindow(url);
  await tab.focus();
  return tab.navigate(url);
}

// Give an order to a fleet and follow it to its end, from Node.js with nothing installed: the NATS protocol is lines.
//
//     node fleet_client.mjs nats://submit:PASSWORD@127.0.0.1:PORT "mend the failing test" [AGENT]
//
// A real program would use a NATS client of its language; this one shows that the contract needs nothing else.

import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";

const [address, task, agent = "native"] = process.argv.slice(2);
const url = new URL(address.replace("nats://", "http://"));
const socket = createConnection(Number(url.port), url.hostname);
const inbox = `_INBOX_submit.${randomUUID()}`;
const waiting = new Map();
let held = Buffer.alloc(0);

socket.on("data", (data) => {
  held = Buffer.concat([held, data]);
  for (let end = held.indexOf("\r\n"); end >= 0; end = held.indexOf("\r\n")) {
    const words = held.subarray(0, end).toString().split(" ");
    const size = words[0] === "MSG" || words[0] === "HMSG" ? Number(words.at(-1)) : -1;
    if (size >= 0 && held.length < end + 2 + size + 2) return;
    const body = size < 0 ? Buffer.alloc(0) : held.subarray(end + 2, end + 2 + size);
    held = held.subarray(size < 0 ? end + 2 : end + 2 + size + 2);
    if (words[0] === "PING") socket.write("PONG\r\n");
    if (words[0] === "-ERR") throw new Error(words.slice(1).join(" "));
    if (size >= 0) {
      const headers = words[0] === "HMSG" ? Number(words.at(-2)) : 0;
      waiting.get(words[1])?.({ headers: body.subarray(0, headers).toString(), text: body.subarray(headers).toString() });
    }
  }
});

function request(subject, text, headers = {}) {
  const reply = `${inbox}.${randomUUID()}`;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = lines.length ? `NATS/1.0\r\n${lines.join("")}\r\n` : "";
  const all = Buffer.byteLength(head + text);
  const sizes = head ? `${Buffer.byteLength(head)} ${all}` : `${all}`;
  socket.write(`${head ? "HPUB" : "PUB"} ${subject} ${reply} ${sizes}\r\n${head}${text}\r\n`);
  return new Promise((resolve) => waiting.set(reply, resolve));
}

const who = { user: url.username, pass: decodeURIComponent(url.password), headers: true, verbose: false, lang: "node" };
socket.write(`CONNECT ${JSON.stringify(who)}\r\nSUB ${inbox}.* 1\r\n`);

const id = randomUUID().slice(0, 8);
const order = JSON.stringify({ format: 1, id, task, agent });
const stored = await request(`$KV.fleet.spec.${id}`, order, { "Nats-Expected-Last-Subject-Sequence": "0" });
if (JSON.parse(stored.text).error) throw new Error(stored.text);
console.log(`given: ${id}`);

let state = "";
while (!["done", "failed", "cancelled", "skipped"].includes(state)) {
  await new Promise((resolve) => setTimeout(resolve, 100));
  const found = await request(`$JS.API.DIRECT.GET.KV_fleet.$KV.fleet.order.${id}`, "");
  if (!/^NATS\/1\.0 \d/.test(found.headers)) state = JSON.parse(found.text).state;
}
console.log(`ended: ${state}`);
socket.end();
process.exitCode = state === "done" ? 0 : 1;

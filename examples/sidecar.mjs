// A whole sidecar for Node: it writes the task into a file and says so. Needs nothing but Node.
//
//   treadle host run --sidecar "node examples/sidecar.mjs" --task "remember the milk" --apply

import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

const backend = { id: "example-node", backend_version: "1.0.0", adapter_version: null };
const capabilities = { streaming: "native", tool_write: "native" };
const cancelled = new Set();
const now = () => new Date().toISOString();
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

async function work({ id: ref, work_order: order }) {
  const started = now();
  const trace = [];
  const event = (type, fields) => {
    trace.push({ ts: now(), type, ...fields });
    say({ t: "event", ref_id: ref, event: trace.at(-1) });
  };
  event("run_started", { message: "starting" });
  let outcome = "partial";
  if (!cancelled.has(ref)) {
    await appendFile(join(order.workspace.root, "NOTES.md"), `- ${order.task}\n`);
    event("file_changed", { path: "NOTES.md", summary: "modified" });
    event("assistant_message", { text: "I wrote it down." });
    outcome = "complete";
  }
  event("run_completed", { message: outcome });
  say({
    t: "final",
    ref_id: ref,
    receipt: {
      meta: {
        run_id: ref, work_order_id: order.id, contract_version: "abp/v0.1",
        started_at: started, finished_at: now(), duration_ms: 0,
      },
      backend, capabilities, mode: "mapped", usage_raw: {}, usage: {}, trace, artifacts: [],
      verification: { git_diff: null, git_status: null, harness_ok: false },
      outcome, receipt_sha256: null,
    },
  });
}

say({ t: "hello", contract_version: "abp/v0.1", backend, capabilities, mode: "mapped" });

// Orders are done one after the other; pings and cancels are heard meanwhile.
let last = Promise.resolve();
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.t === "run") last = last.then(() => work(message));
  else if (message.t === "cancel") cancelled.add(message.ref_id);
  else if (message.t === "ping") say({ t: "pong", seq: message.seq });
}
await last;

// A client of the worker protocol in Node, without packages: node worker_client.mjs MODEL MESSAGE
// Prints the answer as it is written; Ctrl-C cancels the send.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [model, message] = process.argv.slice(2);
const worker = spawn("treadle-worker", [], { stdio: ["pipe", "pipe", "inherit"], detached: true });
const ask = (request) => worker.stdin.write(JSON.stringify(request) + "\n");

worker.on("error", (error) => {
  console.error(`cannot start treadle-worker: ${error.message}`);
  process.exit(1);
});
worker.stdin.on("error", () => {}); // A worker that has ended reads no more: the end of its output, below, tells of it.

ask({ type: "init", id: "1", protocol_version: "0.2.0", config: { model, system_prompt: "", tools: ["read_file", "glob", "grep", "bash"] } });
ask({ type: "send", id: "2", message });
process.once("SIGINT", () => ask({ type: "cancel", id: "3", target_id: "2" }));

let result;
for await (const line of createInterface({ input: worker.stdout, crlfDelay: Infinity })) {
  const response = JSON.parse(line);
  if (response.type === "event") {
    const event = response.event;
    if (event.event === "content_delta") process.stdout.write(event.text);
    if (event.event === "tool_start") console.log(`\n[${event.name} ${JSON.stringify(event.args)}]`);
    // Anything else is skipped: later workers may say more.
  } else if (response.type === "result" && !result) {
    result = response;
    ask({ type: "shutdown", id: "4" });
  }
}
if (result?.status === "ok") {
  console.log(`\n(${result.iterations} model calls, ${result.total_latency_ms} ms)`);
} else {
  console.error(`\n${result?.error.code ?? "the worker ended"}: ${result?.error.message ?? "no result"}`);
  process.exitCode = 1;
}

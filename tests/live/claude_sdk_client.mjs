// Drives us through the official TypeScript SDK: node claude_sdk_client.mjs SDK TREADLE WORK; prints what was seen as JSON.
import { readFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [sdkPath, treadle, work] = process.argv.slice(2);
const { query, tool, createSdkMcpServer } = await import(sdkPath);
const seen = {};

async function run(name, prompt, options, during) {
  const messages = [];
  const stderr = [];
  const started = query({
    prompt,
    options: { pathToClaudeCodeExecutable: treadle, cwd: work, env: process.env, stderr: (text) => stderr.push(text), ...options },
  });
  try {
    for await (const message of started) {
      messages.push(message);
      if (during) await during(started, message);
    }
  } catch (error) {
    messages.push({ type: "thrown", text: String(error) });
  }
  const uses = messages.filter((m) => m.type === "assistant").flatMap((m) => m.message.content.filter((b) => b.type === "tool_use").map((b) => b.name));
  const last = messages.at(-1);
  seen[name] = { parents: [...new Set(messages.map((m) => m.parent_tool_use_id ?? null))], types: [...new Set(messages.map((m) => m.type))], uses, last, init: messages.find((m) => m.type === "system" && m.subtype === "init"), stderr: stderr.join("") };
  process.stderr.write(`${name} `);
  return messages;
}

// Prompts one by one, and then an open end, as a program has it that goes on talking; `over` ends it.
let over;
async function* many(...prompts) {
  const end = new Promise((resolve) => { over = resolve; });
  for (const content of prompts) yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null, session_id: "" };
  await end;
}

await run("plain", "say it", {});
await run("denied", "write it", {});
await run("allowed", "write it", { canUseTool: async (name, input) => ({ behavior: "allow", updatedInput: { ...input, content: "by the host" } }) });
seen.allowed.made = existsSync(join(work, "made.txt")) && readFileSync(join(work, "made.txt"), "utf8");
await run("interrupting", "write it", { canUseTool: async () => ({ behavior: "deny", message: "stop", interrupt: true }) });
const asked = [];
await run("hooks", "write it", {
  permissionMode: "bypassPermissions",
  allowDangerouslySkipPermissions: true,
  hooks: { PreToolUse: [{ matcher: "Write", hooks: [async (input) => { asked.push(input.tool_name); return { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "not here" } }; }] }] },
});
seen.hooks.asked = asked;
let z;
try { z = await import(new URL("../../zod/v4/index.js", "file://" + sdkPath).href); } catch { z = await import(new URL("../../zod/index.js", "file://" + sdkPath).href); }
const zod = z.z ?? z.default ?? z;
const added = [];
const server = createSdkMcpServer({ name: "calc", version: "1", tools: [tool("add", "adds", { a: zod.number(), b: zod.number() }, async ({ a, b }) => { added.push([a, b]); return { content: [{ type: "text", text: String(a + b) }] }; })] });
await run("mcp", many("add it"), { mcpServers: { calc: server }, allowedTools: ["mcp__calc__add"] }, async (q, m) => { if (m.type === "result") { seen.status = await q.mcpServerStatus(); over(); } });
seen.mcp.added = added;
await run("prompts", "say it", { systemPrompt: "You are a parrot.", agents: { reviewer: { description: "reviews", prompt: "You review." } } });
await run("appended", "say it", { systemPrompt: { type: "preset", preset: "claude_code", append: "Speak in rhymes." } });
await run("tools", "say it", { tools: ["Read"], disallowedTools: ["Bash"] });
await run("partial", "say it", { includePartialMessages: true });
const first = seen.plain.last.session_id;
await run("resumed", "again", { resume: first });
await run("forked", "again", { resume: first, forkSession: true });
await run("schema", "as json", { outputFormat: { type: "json_schema", schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] } } });
await run("turns", "write it", { maxTurns: 1, permissionMode: "acceptEdits" });
await run("control", many("say it", "say it"), {}, async (q, m) => {
  if (m.type === "result" && seen.controlled) over();
  if (m.type === "result" && !seen.controlled) {
    seen.controlled = true;
    await q.setPermissionMode("acceptEdits");
    await q.setModel("other");
    seen.commands = (await q.supportedCommands()).length;
    seen.models = (await q.supportedModels()).length;
    seen.account = await q.accountInfo();
    seen.context = q.getContextUsage ? await q.getContextUsage() : null;
  }
});
await run("interrupted", many("slowly"), { includePartialMessages: true }, async (q, m) => {
  if (m.type === "stream_event" && !seen.stopped) seen.stopped = await q.interrupt().then(() => true);
  if (m.type === "result") over();
});
await run("model", "say it", { model: "default", effort: "high" });
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: process.argv[5] } };
const document = { type: "document", source: { type: "base64", media_type: "application/pdf", data: "aGk=" } };
await run("image", many([{ type: "text", text: "say what it is" }, image]), {}, async (q, m) => { if (m.type === "result") over(); });
await run("document", many([{ type: "text", text: "say what it is" }, document]), {}, async (q, m) => { if (m.type === "result") over(); });
const suggested = [];
let touched = 0;
await run("suggested", many("touch twice", "touch twice"), { canUseTool: async (name, input, { suggestions }) => { suggested.push(suggestions); return { behavior: "allow", updatedInput: input, updatedPermissions: suggestions }; } }, async (q, m) => { if (m.type === "result" && ++touched === 2) over(); });
seen.suggested.offered = suggested;
await run("delegated", "delegate it", {});
await run("continued", "again", { continue: true });
await run("named", "say it", { sessionId: "6f1f1b0e-57d5-4c9b-9d8e-0123456789ab" });
writeFileSync(join(work, "AGENTS.md"), "Speak like a heron.");
await run("sourced", "say it from here on", { settingSources: ["project"] });
await run("unsourced", "say it from here on", { settingSources: [] });
await run("budget", "say it", { maxBudgetUsd: 1 });
await run("planned", "say it", { additionalDirectories: ["/usr"], permissionMode: "plan" });
await run("bypassed", "write it", { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true });
const stopper = new AbortController();
await run("aborted", "slowly", { includePartialMessages: true, abortController: stopper }, async (q, m) => { if (m.type === "stream_event") stopper.abort(); });
await run("server", many("say it", "say it"), { mcpServers: { notes: { command: process.argv[6], args: [process.argv[7], join(work, "log")] } } }, async (q, m) => {
  if (m.type !== "result" || seen.toggled) { if (m.type === "result") over(); return; }
  seen.toggled = [(await q.mcpServerStatus())[0].status];
  await q.toggleMcpServer("notes", false);
  seen.toggled.push((await q.mcpServerStatus())[0].status);
});
await run("failing", "fail", {});
writeFileSync(1, JSON.stringify(seen));

// The official TypeScript SDK as an editor: prompts the agent that it is given, allows what is asked, tells what it saw.
//   node acp_client.mjs SDK CWD PROMPT COMMAND ARGUMENTS...
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, prompt, command, ...args] = process.argv.slice(2);
const acp = await import(sdk);
const agent = spawn(command, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const seen = { updates: [], asked: [], text: "" };
const app = acp
  .client({ name: "treadle-test" })
  .onRequest(acp.methods.client.session.requestPermission, (context) => {
    seen.asked.push(context.params.toolCall);
    const option = context.params.options.find((each) => each.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(acp.methods.client.session.update, (context) => {
    const update = context.params.update;
    seen.updates.push(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") seen.text += update.content.text;
  });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await app.connectWith(stream, async (context) => {
  const greeting = await context.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const { sessionId } = await context.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
  const answer = await context.request(acp.methods.agent.session.prompt, {
    sessionId,
    prompt: [{ type: "text", text: prompt }],
  });
  console.log(JSON.stringify({ ...seen, stopReason: answer.stopReason, agent: greeting.agentInfo.name }));
});
agent.stdin.end();

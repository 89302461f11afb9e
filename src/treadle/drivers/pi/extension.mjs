// Loaded into pi by its driver. Before a tool runs, the driver is asked over pi's own RPC, and its answer is kept.
const ask = async (ctx, title, content) => {
  const answer = await ctx.ui.input(`treadle:${title}`, JSON.stringify(content));
  return answer ? JSON.parse(answer) : undefined;
};

export default function (pi) {
  // Where its model is, when it is reached through our gateway.
  const { providers = {} } = JSON.parse(process.env.TREADLE_PI_SETTINGS ?? "{}");
  for (const [name, settings] of Object.entries(providers)) pi.registerProvider(name, settings);
  pi.on("before_agent_start", async (event, ctx) => {
    const given = await ask(ctx, "instructions", {});
    if (!given || (given.system === undefined && given.append === undefined)) return undefined;
    const parts = [given.system ?? event.systemPrompt, given.append].filter((part) => part);
    return { systemPrompt: parts.join("\n\n") };
  });
  pi.on("tool_call", async (event, ctx) => {
    const answer = await ask(ctx, "tool", { call: event.toolCallId, tool: event.toolName, input: event.input });
    if (!answer || !answer.allow) return { block: true, reason: answer?.reason ?? "nobody answered" };
    if (answer.input) {
      for (const name of Object.keys(event.input)) delete event.input[name];
      Object.assign(event.input, answer.input);
    }
    return undefined;
  });
}

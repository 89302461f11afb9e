// Codex's own SDK, with `treadle` in place of `codex`: two turns of a thread, a stream, and an answer of a given form.
const [, , sdk, program, directory] = process.argv;
const { Codex } = await import(sdk);
const codex = new Codex({ codexPathOverride: program });
const options = { workingDirectory: directory, skipGitRepoCheck: true, sandboxMode: "workspace-write" };
const thread = codex.startThread({ ...options, model: `scripted:${directory}/inner.toml` });
const first = await thread.run("write it");
const id = thread.id;
const again = await thread.run("and again");
const types = [];
const other = codex.startThread({ ...options, sandboxMode: "read-only", model: `scripted:${directory}/inner.toml` });
for await (const event of (await other.runStreamed("write it")).events) types.push(event.type);
const typed = codex.startThread({ ...options, model: `scripted:${directory}/typed.toml` });
const outputSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const answer = JSON.parse((await typed.run("how many?", { outputSchema })).finalResponse);
console.log(JSON.stringify({
  answers: [first.finalResponse, again.finalResponse], items: first.items.map((item) => item.type),
  tokens: first.usage.output_tokens > 0, resumed: thread.id === id, types, answer,
}));

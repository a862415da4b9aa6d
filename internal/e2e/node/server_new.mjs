// The asking server of the TypeScript SDK of both eras:
// @modelcontextprotocol/server. package-lock.json pins it: the Inspector brings it.
// With the argument stdio it is on standard input and output.

import { Readable } from 'node:stream';
import {
  createMcpHandler,
  fromJsonSchema,
  inputRequired,
  isLegacyRequest,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { hear, params, promptResult, questions, toolResult } from './ask.mjs';
import { listen, sessions } from './ask_http.mjs';

const canarySchema = fromJsonSchema({ type: 'object', properties: { canary: { type: 'string' } }, required: ['canary'] });

function server({ era }) {
  const mcp = new McpServer({ name: 'toolgate-ask-sdk-new', version: '1' });

  // In the legacy era a server asks while it works.
  // options decide which stream a question takes.
  const askLegacy = async (steps, canary, ctx, options) => {
    const heard = [];
    for (const step of steps) {
      switch (step.kind) {
        case 'elicitation':
          heard.push(hear(step, await ctx.mcpReq.elicitInput(params(step, canary, heard), options)));
          break;
        case 'sampling':
          heard.push(hear(step, await ctx.mcpReq.requestSampling(params(step, canary, heard), options)));
          break;
        default:
          heard.push(hear(step, await mcp.server.listRoots(undefined, options)));
      }
    }
    return heard;
  };

  // In the modern era it answers with its question, and is called again. What it
  // has heard before is its state.
  const askModern = (steps, canary, ctx) => {
    const heard = JSON.parse(ctx.mcpReq.requestState() ?? '[]');
    const answer = ctx.mcpReq.inputResponses?.[`q${heard.length}`];
    if (answer) heard.push(hear(steps[heard.length], answer));
    if (heard.length === steps.length) return { heard };
    const step = steps[heard.length];
    const request = {
      elicitation: () => inputRequired.elicit(params(step, canary, heard)),
      sampling: () => inputRequired.createMessage(params(step, canary, heard)),
      roots: () => inputRequired.listRoots(),
    }[step.kind]();
    return { required: inputRequired({ inputRequests: { [`q${heard.length}`]: request }, requestState: JSON.stringify(heard) }) };
  };

  const ask = async (steps, canary, ctx, result, options) => {
    if (era === 'legacy') return result(await askLegacy(steps, canary, ctx, options));
    const { heard, required } = askModern(steps, canary, ctx);
    return required ?? result(heard);
  };
  for (const [name, steps] of Object.entries(questions)) {
    // As the documentation of the SDK shows it, which takes the standalone stream.
    mcp.registerTool(name, { inputSchema: canarySchema }, ({ canary }, ctx) => ask(steps, canary, ctx, toolResult));
    // As tools of the legacy era ask, whichever era the caller is of.
    mcp.registerTool(`direct_${name}`, { inputSchema: canarySchema }, async ({ canary }, ctx) =>
      toolResult(await askLegacy(steps, canary, ctx)));
    // On the stream of the request.
    mcp.registerPrompt(name, { argsSchema: canarySchema }, ({ canary }, ctx) =>
      ask(steps, canary, ctx, promptResult, { relatedRequestId: ctx.mcpReq.id }));
  }
  return mcp;
}

const modern = createMcpHandler(server, { legacy: 'reject' });
const find = sessions(async options => {
  const transport = new WebStandardStreamableHTTPServerTransport(options);
  await server({ era: 'legacy' }).connect(transport);
  return transport;
});

async function serve(request) {
  if (!(await isLegacyRequest(request))) return modern.fetch(request);
  const id = request.headers.get('mcp-session-id');
  const message = request.method === 'POST' ? await request.clone().json() : undefined;
  const transport = await find(id, message);
  return transport?.handleRequest(request) ?? new Response(null, { status: id ? 404 : 400 });
}

if (process.argv.includes('stdio')) serveStdio(server);
else listen(async (req, res) => {
  const gone = new AbortController();
  res.on('close', () => gone.abort());
  const response = await serve(new Request(`http://${req.headers.host}${req.url}`, {
    method: req.method,
    headers: Object.entries(req.headers).flatMap(([name, value]) => [value].flat().map(v => [name, v])),
    body: req.method === 'POST' ? Readable.toWeb(req) : undefined,
    duplex: 'half',
    signal: gone.signal,
  }));
  res.writeHead(response.status, Object.fromEntries(response.headers));
  res.flushHeaders();
  if (!response.body) return void res.end();
  Readable.fromWeb(response.body).on('error', () => res.destroy()).pipe(res);
});

// The asking server of the TypeScript SDK of the legacy era:
// @modelcontextprotocol/sdk.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';
import { hear, params, promptResult, questions, toolResult } from './ask.mjs';
import { body, listen, sessions } from './ask_http.mjs';

function server() {
  const mcp = new McpServer({ name: 'toolgate-ask-sdk-old', version: '1' });
  // options decide which stream a question takes.
  const ask = async (steps, canary, options) => {
    const heard = [];
    for (const step of steps) {
      switch (step.kind) {
        case 'elicitation':
          heard.push(hear(step, await mcp.server.elicitInput(params(step, canary, heard), options)));
          break;
        case 'sampling':
          heard.push(hear(step, await mcp.server.createMessage(params(step, canary, heard), options)));
          break;
        default:
          heard.push(hear(step, await mcp.server.listRoots(undefined, options)));
      }
    }
    return heard;
  };
  for (const [name, steps] of Object.entries(questions)) {
    // As the documentation of the SDK shows it, which takes the standalone stream.
    mcp.registerTool(name, { inputSchema: { canary: z.string() } }, async ({ canary }) => toolResult(await ask(steps, canary)));
    // On the stream of the request.
    mcp.registerPrompt(name, { argsSchema: { canary: z.string() } }, async ({ canary }, extra) =>
      promptResult(await ask(steps, canary, { relatedRequestId: extra.requestId })));
  }
  return mcp;
}

const find = sessions(async options => {
  const transport = new StreamableHTTPServerTransport(options);
  await server().connect(transport);
  return transport;
});

listen(async (req, res) => {
  const message = req.method === 'POST' ? await body(req) : undefined;
  const transport = await find(req.headers['mcp-session-id'], message);
  if (!transport) {
    res.writeHead(req.headers['mcp-session-id'] ? 404 : 400, { 'content-type': 'application/json' });
    res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no session"}}');
    return;
  }
  await transport.handleRequest(req, res, message);
});

// The TypeScript SDK of the modern era, which still speaks the legacy one:
// @modelcontextprotocol/client.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { capabilities } from './ask.mjs';
import { main } from './script.mjs';

function transport(t) {
  switch (t.transport) {
    case 'http':
      return new StreamableHTTPClientTransport(new URL(t.url), {
        requestInit: t.key ? { headers: { authorization: `Bearer ${t.key}` } } : {},
      });
    case 'sse':
      return new SSEClientTransport(new URL(t.url));
    default:
      return new StdioClientTransport({ command: t.command, args: t.args, env: t.env, stderr: 'inherit' });
  }
}

// person answers what servers ask, if there is one.
async function connect(t, person) {
  const modern = t.era === 'modern';
  const client = new Client(
    { name: 'toolgate-e2e-sdk-new', version: '1' },
    { capabilities: person ? capabilities : {}, versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } },
  );
  if (person) {
    client.setRequestHandler('elicitation/create', request => person.elicit(request.params));
    client.setRequestHandler('sampling/createMessage', request => person.sample(request.params));
    client.setRequestHandler('roots/list', () => person.roots());
  }
  await client.connect(transport(t));
  return {
    protocol: client.getNegotiatedProtocolVersion?.() ?? (modern ? '2026-07-28' : ''),
    tools: async () => (await client.listTools()).tools,
    prompts: async () => (await client.listPrompts()).prompts,
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    read: uri => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    watchTools: async fn => {
      client.setNotificationHandler('notifications/tools/list_changed', fn);
      if (modern) await client.listen({ toolsListChanged: true });
    },
    close: () => client.close(),
  };
}

await main('typescript-sdk-2', '@modelcontextprotocol/client', connect);

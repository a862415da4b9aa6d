// The TypeScript SDK of the legacy era: @modelcontextprotocol/sdk.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
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
  const client = new Client({ name: 'toolgate-e2e-sdk-old', version: '1' }, { capabilities: person ? capabilities : {} });
  if (person) {
    client.setRequestHandler(ElicitRequestSchema, request => person.elicit(request.params));
    client.setRequestHandler(CreateMessageRequestSchema, request => person.sample(request.params));
    client.setRequestHandler(ListRootsRequestSchema, () => person.roots());
  }
  const wire = transport(t);
  let protocol = '';
  const set = wire.setProtocolVersion?.bind(wire);
  wire.setProtocolVersion = v => {
    protocol = v;
    set?.(v);
  };
  await client.connect(wire);
  return {
    protocol,
    tools: async () => (await client.listTools()).tools,
    prompts: async () => (await client.listPrompts()).prompts,
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    // The library can make a task of a call of a tool that lists itself as able to.
    task: async (name, args) => {
      let tasks = 0;
      for await (const message of client.experimental.tasks.callToolStream({ name, arguments: args }, undefined, { task: { ttl: 60_000 } })) {
        if (message.type === 'taskCreated') tasks++;
        if (message.type === 'error') throw message.error;
        if (message.type === 'result' && tasks === 1) return message.result;
      }
      throw new Error(`${tasks} tasks were made, and there is no result`);
    },
    read: uri => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    watchTools: async fn => client.setNotificationHandler(ToolListChangedNotificationSchema, fn),
    close: () => client.close(),
  };
}

await main('typescript-sdk-1', '@modelcontextprotocol/sdk', connect);

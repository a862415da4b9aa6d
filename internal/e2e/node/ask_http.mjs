// Streamable HTTP for the asking servers, on a port that the system chooses.
// The URL is their first line on stdout.

import { randomUUID } from 'node:crypto';
import http from 'node:http';

export function listen(handle) {
  const server = http.createServer((req, res) => {
    Promise.resolve(handle(req, res)).catch(err => {
      console.error(err);
      if (!res.headersSent) res.writeHead(500);
      res.end();
    });
  });
  // Longer than any pause of the tests: a request that meets a connection that is
  // just being closed for its idleness fails.
  server.keepAliveTimeout = 300_000;
  server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
  process.on('SIGTERM', () => process.exit(0));
}

export async function body(req) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return text ? JSON.parse(text) : undefined;
}

// sessions keeps one transport per session. make gets the options that both SDKs
// take and returns a connected transport. The returned function finds the
// transport of a request by its session id, makes one for a request that opens a
// session, and returns undefined for a session that is unknown.
export function sessions(make) {
  const open = new Map();
  return async (id, message) => {
    if (id) return open.get(id);
    if (message?.method !== 'initialize') return undefined;
    let transport;
    transport = await make({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => void open.set(id, transport),
      onsessionclosed: id => void open.delete(id),
    });
    return transport;
  };
}

// An MCP server on standard input and output whose tools are those of a file, for pages that
// show them: names, descriptions and schemas are whatever the file says. The file is read for
// each list. The tool "release" says that the list has changed, "ask" asks its caller for a
// form, "fail" fails, and every other tool answers with its arguments, or with the text that
// the file has for it.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [file] = process.argv.slice(2);
const read = () => JSON.parse(readFileSync(file, 'utf8'));
const say = message => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const text = words => ({ content: [{ type: 'text', text: words }] });
const waiting = new Map(); // ids of calls by the ids of the questions that they wait for
let asked = 0;

function call(id, { name, arguments: args = {} }) {
  const { questions, answers } = read();
  if (name === 'ask') {
    const question = `q${++asked}`;
    waiting.set(question, id);
    say({ id: question, method: 'elicitation/create', params: questions?.[name] });
    return;
  }
  if (name === 'release') say({ method: 'notifications/tools/list_changed' });
  say({ id, result: { ...text(answers?.[name] ?? JSON.stringify(args)), isError: name === 'fail' } });
}

createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (!method) {
    say({ id: waiting.get(id), result: text(JSON.stringify(result ?? error)) });
    waiting.delete(id);
    return;
  }
  if (id === undefined) return;
  switch (method) {
    case 'initialize':
      say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'desk', version: '1' } } });
      break;
    case 'tools/list':
      say({ id, result: { tools: read().tools } });
      break;
    case 'tools/call':
      call(id, params);
      break;
    case 'ping':
      say({ id, result: {} });
      break;
    default:
      say({ id, error: { code: -32601, message: 'not here' } });
  }
});

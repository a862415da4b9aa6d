// The script that every JavaScript client runs, and the report it prints. The
// Python and Go drivers do the same steps and print the same report.
//
// A driver is started with one JSON argument:
//   {"transport":"http|sse|stdio","era":"legacy|modern","url":"...",
//    "command":"...","args":[...],"env":{...},"label":"..."}
// and prints one JSON line as its last line on stdout:
//   {"client":"...","version":"...","protocol":"...","error":"...",
//    "checks":{"list":{"ok":true,"detail":"..."}, ...}}
//
// With links in the argument, a driver makes calls instead, in which servers ask
// something, and answers what it is asked with its secret:
//   {"secret":"...","atOnce":4,
//    "links":[{"url":"...","key":"an API key, or none","lanes":[[{"id":"...","method":"tools/call|prompts/get|tools/list","name":"...","canary":"..."}, ...], ...]}, ...]}
// The calls of a lane are made one after the other, atOnce lanes at a time. A link may
// have a transport and an era of its own. A call may have args in place of the canary.
// With progress its progress is counted. With cancelAfter it is cancelled after so many
// milliseconds. With until it is repeated for a while, until its text has that in it. With
// task it runs as a task, by a client that can.
// It reports what each call returned, the revision of each link, and everything that it
// was asked:
//   {"answers":{"<id>":{"text":"...","error":"...","progress":3}, ...},"protocols":["..."],"asked":["...", ...]}

import { readFileSync } from 'node:fs';
import { Person } from './ask.mjs';

export const BIG = '9007199254740993'; // 2^53 + 1: the first integer that a double cannot hold

export function target() {
  return JSON.parse(process.argv[2]);
}

// packageVersion reads what is installed beside the drivers.
function packageVersion(name) {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

function named(items, key, suffix) {
  const found = items.find(i => i[key] === suffix || i[key].endsWith('__' + suffix) || i[key].endsWith('+' + suffix));
  if (!found) throw new Error(`no ${suffix} among ${items.map(i => i[key]).join(', ')}`);
  return found[key];
}

const textOf = result => result.content?.find(c => c.type === 'text')?.text;

// within rejects when p takes longer than ms.
async function within(ms, what, p) {
  let timer;
  try {
    return await Promise.race([
      p,
      new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what}: nothing within ${ms} ms`)), ms);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

// until repeats fn until it succeeds, or throws what it threw last.
async function until(ms, fn) {
  const end = Date.now() + ms;
  for (;;) {
    try {
      return await fn();
    } catch (err) {
      if (Date.now() > end) throw err;
      await sleep(100);
    }
  }
}

// run does every step against c, an adapter with:
//   tools(), prompts(), resources(), templates()   lists, complete
//   call(name, args, {signal, onprogress})          a tool call
//   read(uri), prompt(name, args)
//   watchTools(fn)                                  calls fn on each list change
export async function run(c, label) {
  const checks = {};
  const step = async (name, fn) => {
    try {
      const { ok, detail } = await within(20_000, name, fn());
      checks[name] = { ok, detail };
    } catch (err) {
      checks[name] = { ok: false, detail: String(err?.message ?? err) };
    }
  };

  // A gateway lists a server once it has started, so a list that lacks something
  // is asked for again for a while.
  const find = async () => {
    const [tools, prompts, resources, templates] = [await c.tools(), await c.prompts(), await c.resources(), await c.templates()];
    return {
      echo: named(tools, 'name', 'echo'),
      slow: named(tools, 'name', 'slow'),
      count: named(tools, 'name', 'cancelled_count'),
      change: named(tools, 'name', 'change'),
      greet: named(prompts, 'name', 'greet'),
      text: named(resources, 'uri', 'fixture://text'),
      item: named(templates, 'uriTemplate', 'fixture://item/{id}'),
    };
  };
  let names;
  await step('list', async () => {
    names = await until(10_000, find);
    return { ok: true, detail: 'tools, prompt, resource and template' };
  });
  if (!names) return checks;

  await step('call_int64', async () => {
    const result = await c.call(names.echo, { n: JSON.rawJSON(BIG), note: '<é>' });
    const text = textOf(result) ?? '';
    const argument = text.match(/"n":\s*(-?[0-9.eE+]+)/)?.[1];
    const structured = JSON.stringify(result.structuredContent?.n);
    if (argument !== BIG) return { ok: false, detail: `argument arrived as ${argument}` };
    if (structured !== BIG) return { ok: false, detail: `argument and text exact, structured content reads ${structured}` };
    return { ok: true, detail: 'argument, text and structured content exact' };
  });

  await step('read_resource', async () => {
    const text = (await c.read(names.text)).contents[0].text;
    const item = (await c.read(names.item.replace('{id}', '42'))).contents[0].text;
    const ok = text === 'fixture text: é, 漢字, <&>, and a\nsecond line' && item === 'item 42';
    return { ok, detail: ok ? 'resource and template' : `${JSON.stringify(text)}, ${JSON.stringify(item)}` };
  });

  await step('get_prompt', async () => {
    const got = (await c.prompt(names.greet, { name: 'Ada' })).messages[0].content.text;
    return { ok: got === 'Hello, Ada!', detail: got };
  });

  await step('progress', async () => {
    const seen = [];
    let done = false;
    let late = 0;
    const result = await c.call(names.slow, { label: label + '_p', ms: 400 }, {
      onprogress: p => {
        if (done) late++;
        seen.push(p.progress);
      },
    });
    done = true;
    await sleep(50);
    const rising = seen.every((v, i) => i === 0 || v > seen[i - 1]);
    const ok = seen.length >= 2 && rising && late === 0 && textOf(result) === 'done';
    return { ok, detail: ok ? 'in order, before the result' : `progress ${JSON.stringify(seen)}, ${late} late, result ${textOf(result)}` };
  });

  await step('cancel', async () => {
    const abort = new AbortController();
    const ended = c.call(names.slow, { label: label + '_c', ms: 20_000 }, { signal: abort.signal, onprogress: () => {} })
      .then(() => 'a result', () => 'an error');
    await sleep(400);
    abort.abort('the test cancels');
    const how = await within(5_000, 'the cancelled call', ended);
    let counts;
    for (let i = 0; i < 50; i++) {
      counts = JSON.parse(textOf(await c.call(names.count, { label: label + '_c' })));
      if (counts.cancelled === 1 && counts.running === 0) break;
      await sleep(100);
    }
    const ok = how === 'an error' && counts.cancelled === 1 && counts.running === 0;
    return { ok, detail: ok ? 'seen by the server' : `call ended with ${how}, server counts ${JSON.stringify(counts)}` };
  });

  await step('list_changed', async () => {
    let notify;
    const changed = new Promise(resolve => (notify = resolve));
    await c.watchTools(() => notify());
    await c.call(names.change, { name: 'added_' + label });
    await within(5_000, 'the list change', changed);
    await until(3_000, async () => named(await c.tools(), 'name', 'added_' + label));
    return { ok: true, detail: 'told, and the new tool is listed' };
  });
  return checks;
}

// answered makes one call and puts what came back into into.
async function answered(c, call, into) {
  const { method, name, canary } = call;
  if (method === 'tools/list') return (await c.tools()).map(t => t.name).join(' ');
  if (method === 'prompts/get') return (await c.prompt(name, { canary })).messages[0].content.text;
  const options = {};
  if (call.progress) {
    into.progress = 0;
    options.onprogress = () => into.progress++;
  }
  if (call.cancelAfter) options.signal = AbortSignal.timeout(call.cancelAfter);
  const args = call.args ?? { canary };
  const result = await (call.task ? c.task(name, args) : c.call(name, args, options));
  if (result.isError) throw new Error(`tool error: ${textOf(result)}`);
  return textOf(result);
}

// returned makes one call, again and again where it waits for something, and returns what
// came back.
async function returned(c, call) {
  const once = async () => {
    const into = {};
    try {
      into.text = await within(20_000, call.name, answered(c, call, into));
    } catch (err) {
      into.error = String(err?.message ?? err);
    }
    return into;
  };
  const end = Date.now() + 5_000;
  for (;;) {
    const got = await once();
    if (!call.until || got.text?.includes(call.until) || Date.now() > end) return got;
    await sleep(50);
  }
}

// callAll makes every call of the link, a few lanes at once.
async function callAll(c, link, atOnce, answers) {
  const left = [...link.lanes];
  const work = async () => {
    for (let lane = left.shift(); lane; lane = left.shift()) {
      for (const call of lane) answers[call.id] = await returned(c, call);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

// converse opens each link, makes its calls and closes it.
async function converse(t, report, connect) {
  const person = new Person(t.secret);
  report.answers = {};
  report.asked = person.asked;
  report.protocols = [];
  for (const link of t.links) {
    const adapter = await within(30_000, 'connecting', connect({ ...t, ...link }, person));
    report.protocol = adapter.protocol ?? '';
    report.protocols.push(report.protocol);
    await callAll(adapter, link, t.atOnce, report.answers);
    await within(10_000, 'closing', adapter.close());
  }
}

// main connects, runs, closes and prints the report. It always prints one.
export async function main(client, packageName, connect) {
  const report = { client, version: packageVersion(packageName), protocol: '', error: '', checks: {} };
  let adapter;
  try {
    const t = target();
    if (t.links) {
      await converse(t, report, connect);
      process.stdout.write(JSON.stringify(report) + '\n', () => process.exit(0));
      return;
    }
    adapter = await within(30_000, 'connecting', connect(t));
    report.protocol = adapter.protocol ?? '';
    report.checks = await run(adapter, t.label);
  } catch (err) {
    report.error = String(err?.stack ?? err);
  }
  try {
    await within(10_000, 'closing', adapter?.close?.() ?? Promise.resolve());
  } catch (err) {
    report.error ||= String(err?.message ?? err);
  }
  process.stdout.write(JSON.stringify(report) + '\n', () => process.exit(0));
}

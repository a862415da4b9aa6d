// Looks at every view of a console whose texts are made to attack it: nothing of them runs,
// nothing is loaded, and no page is larger than it may be.
import { fact, open, plan, run, visit, wrong } from './browser.mjs';

await run(async browser => {
  const page = await open(browser, plan.link);
  page.expected = new Set([400, 404, 413, 422]);
  let seen = 0;
  const see = async path => {
    const answer = await page.goto(plan.url + path, { waitUntil: 'load' });
    const bytes = (await answer.body()).length;
    if (answer.status() >= 500 || bytes > plan.most) wrong(path.slice(0, 200), `status ${answer.status()}, ${bytes} bytes`);
    await harmless(page, path);
    seen++;
  };
  await visit(page, '/try');
  await page.getByLabel('API key or token of the caller').fill(plan.key);
  await page.getByRole('button', { name: 'Call as this caller' }).click();
  await page.getByText('Calls are made as').waitFor();
  for (const path of plan.paths) await see(path);
  // A call by hand with what the form suggests, and with the JSON beside it.
  for (const tool of plan.tried) {
    await visit(page, `/try/tool?name=${encodeURIComponent(tool)}`);
    await page.getByLabel('Arguments').fill(JSON.stringify({ text: plan.payloads.join('') }));
    await page.getByText('send it even if it does not fit').click();
    await page.getByRole('button', { name: 'Call with the JSON' }).click();
    await page.waitForURL(/\/try\/calls\//);
    await page.getByText('Messages').first().waitFor();
    await harmless(page, tool);
    seen++;
  }
  // What is searched for comes back in the page, and in what htmx puts into it.
  await visit(page, '/calls');
  for (const payload of plan.searched) {
    await page.getByLabel('Tool').fill(payload);
    await Promise.all([page.waitForResponse(r => r.url().includes('/calls?')), page.getByRole('button', { name: 'Search' }).click()]);
    await page.waitForFunction(() => !document.querySelector('.htmx-request, .htmx-settling, .htmx-swapping'));
    await harmless(page, payload);
    seen++;
  }
  fact('seen', seen);
});

// harmless looks for what a payload would have made.
async function harmless(page, where) {
  const made = await page.evaluate(() => [
    ...[...document.scripts].filter(s => new URL(s.src).origin !== location.origin || !s.src.includes('/assets/')).map(s => s.outerHTML),
    ...[...document.querySelectorAll('main :is(script, iframe, object, embed, img, style, link, base, meta, video, audio, marquee, math, template)')].map(e => e.outerHTML),
    ...[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames().filter(n => n.startsWith('on') || n === 'srcdoc' || n === 'formaction')),
    ...[...document.links].filter(a => new URL(a.href).origin !== location.origin).map(a => a.outerHTML),
  ]);
  if (made.length) wrong(where.slice(0, 200), `${made.slice(0, 3).join(' ')}`);
}

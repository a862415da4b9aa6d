// Opens several browsers, waits until it is told to go on, keeps the live view open in them while
// calls are made, and writes down the memory of each page as it goes on.
import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fact, open, plan, run, visit, wrong } from './browser.mjs';

await run(async browser => {
  const pages = [];
  for (let i = 0; i < plan.browsers; i++) {
    const page = await open(browser, null);
    await visit(page, '/sign-in?to=/try');
    await page.getByLabel('API key or token of your client').fill(plan.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(/\/try$/);
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable');
    pages.push({ page, devtools });
  }
  writeFileSync(plan.opened, '');
  while (!existsSync(plan.go)) await pause(50);
  for (const { page } of pages) {
    page.setDefaultTimeout(60_000);
    await page.goto(plan.url + '/now', { waitUntil: 'domcontentloaded', timeout: 60_000 });
  }
  for (const { page } of pages) await page.locator('[sse-swap="calls"] tbody tr td.time').first().waitFor();
  writeFileSync(plan.ready, '');
  const samples = [];
  for (let i = 0; i <= plan.samples; i++) {
    if (i) await pause(plan.watch / plan.samples);
    samples.push(await sample(pages));
  }
  const seen = [];
  for (const { page } of pages) {
    const rows = page.locator('[sse-swap="calls"] tbody tr');
    seen.push({ rows: await rows.count(), latest: await rows.first().locator('a').getAttribute('href') });
  }
  fact('charts', await charts(pages[0]));
  fact('samples', samples);
  fact('seen', seen);
  if (new Set(pages.map(p => p.page.url())).size !== 1) wrong('the pages', 'a page was left');
});

// sample is the memory of all pages after their garbage is collected: bytes of objects of
// scripts, and elements of its document.
async function sample(pages) {
  return Promise.all(pages.map(async ({ page, devtools }) => {
    await devtools.send('HeapProfiler.collectGarbage');
    const { metrics } = await devtools.send('Performance.getMetrics');
    const elements = await page.evaluate(() => document.getElementsByTagName('*').length);
    return { heap: metrics.find(m => m.name === 'JSHeapUsedSize').value, elements };
  }));
}

// charts has a page draw its chart anew some times, and returns how many it keeps.
async function charts({ page, devtools }) {
  for (let i = 0; i < 5; i++) {
    const drawn = page.waitForResponse('**/now/chart');
    await page.evaluate(() => window.dispatchEvent(new Event('resize')));
    await drawn;
  }
  await page.waitForFunction(() => document.querySelectorAll('[data-chart] canvas').length === 1);
  const { result } = await devtools.send('Runtime.evaluate', { expression: 'CanvasRenderingContext2D.prototype' });
  const { objects } = await devtools.send('Runtime.queryObjects', { prototypeObjectId: result.objectId });
  const { result: kept } = await devtools.send('Runtime.callFunctionOn', {
    objectId: objects.objectId, functionDeclaration: 'function() { return this.length; }', returnByValue: true,
  });
  return kept.value;
}

// Keeps the live view open in several browsers of their own while calls are made, and writes
// down the memory of each page as it goes on.
import { writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fact, open, plan, run, visit, wrong } from './browser.mjs';

await run(async browser => {
  const pages = [];
  for (const link of plan.links) {
    const page = await open(browser, link);
    await visit(page, '/now');
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable');
    pages.push({ page, devtools });
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
  fact('samples', samples);
  fact('seen', seen);
  if (new Set(pages.map(p => p.page.url())).size !== 1) wrong('the pages', 'a page was left');
});

// sample is the memory of all pages after their garbage is collected: bytes of objects of
// scripts, and nodes of documents.
async function sample(pages) {
  const of = [];
  for (const { devtools } of pages) {
    await devtools.send('HeapProfiler.collectGarbage');
    const { metrics } = await devtools.send('Performance.getMetrics');
    const value = name => metrics.find(m => m.name === name).value;
    of.push({ heap: value('JSHeapUsedSize'), nodes: value('Nodes') });
  }
  return of;
}

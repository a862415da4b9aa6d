// Opens each view of the console several times, and writes down when the browser painted it
// first, in milliseconds since the navigation began.
import { fact, open, plan, run, visit, wrong } from './browser.mjs';

await run(async browser => {
  const page = await open(browser, plan.link);
  const paints = {};
  for (const { name, path } of plan.views) {
    paints[name] = [];
    for (let i = 0; i < plan.times; i++) {
      await visit(page, path);
      const first = await page.evaluate(() => new Promise(resolve => {
        const named = list => list.find(e => e.name === 'first-contentful-paint');
        const there = named(performance.getEntriesByType('paint'));
        if (there) return resolve(there.startTime);
        new PerformanceObserver(list => { const e = named(list.getEntries()); if (e) resolve(e.startTime); }).observe({ type: 'paint', buffered: true });
        setTimeout(() => resolve(null), 5000);
      }));
      if (first === null) wrong(name, 'it is never painted');
      else paints[name].push(first);
    }
  }
  fact('paints', paints);
});

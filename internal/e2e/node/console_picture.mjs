// Takes a picture of one view, of a window that fits into a page of documentation.
import { look, open, plan, run, visit } from './browser.mjs';

await run(async browser => {
  const page = await open(browser, plan.link, { viewport: { width: 1100, height: 760 }, colorScheme: 'light' });
  await visit(page, plan.path);
  await look(page, 'the picture');
  await page.screenshot({ path: plan.file, animations: 'disabled' });
});

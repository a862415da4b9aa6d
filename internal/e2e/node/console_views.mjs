// Looks at every view of the console in each window size and color scheme, and reads every view
// without JavaScript.
import { fact, look, open, picture, plan, run, schemes, sizes, visit, wrong } from './browser.mjs';

await run(async browser => {
  const page = await open(browser, plan.link);
  if (new URL(page.url()).pathname !== '/now') wrong('the link', `led to ${page.url()}`);
  await visit(page, '/try');
  await page.getByLabel('API key or token of the caller').fill(plan.key);
  await page.getByRole('button', { name: 'Call as this caller' }).click();
  await page.getByText('Calls are made as').waitFor();
  const asks = await begin(page, 'desk__ask', 'A question before the call goes on');
  const over = await begin(page, 'desk__find_letters', 'Texts of the answer');
  plan.views.push({ name: 'tried-asks', path: asks, shows: 'Which drawer is meant?' }, { name: 'tried', path: over, shows: 'done' });
  const cookies = await page.context().cookies();
  for (const width of sizes) {
    await page.setViewportSize({ width, height: width > 600 ? 900 : 844 });
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      for (const { name, path, status = 200 } of plan.views) await see(page, { name, path, status }, `${name}-${width}-${colorScheme}`);
    }
  }
  await readWithoutScript(browser, cookies);
  const stranger = await open(browser, null, { viewport: { width: 390, height: 844 } });
  await see(stranger, { path: '/sign-in', status: 200 }, 'sign-in-390-light');
  fact('views', plan.views.length);
});

// begin calls a tool, and returns the path of the page of the call when that shows a text.
async function begin(page, tool, shows) {
  await visit(page, `/try/tool?name=${tool}`);
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByText(shows).first().waitFor();
  return new URL(page.url()).pathname;
}

async function see(page, { path, status }, where) {
  page.expected = new Set(status === 200 ? [] : [status]);
  const got = await visit(page, path);
  if (got !== status) wrong(where, `status ${got}`);
  // A chart is drawn when its figures are there.
  if (await page.locator('[data-chart]').count()) await page.locator('[data-chart] canvas').waitFor();
  await look(page, where);
  await picture(page, where);
}

// Every page is whole without JavaScript, and its links and searches work.
async function readWithoutScript(browser, cookies) {
  const page = await open(browser, null, { javaScriptEnabled: false });
  await page.context().addCookies(cookies);
  for (const { name, path, status = 200, shows } of plan.views) {
    page.expected = new Set([status]);
    const got = await visit(page, path);
    const text = await page.locator('main').innerText();
    if (got !== status || !text.includes(shows)) wrong(`${name} without JavaScript`, `status ${got}, without ${shows}: ${text}`);
  }
  await visit(page, '/calls');
  await page.getByLabel('Tool').fill(plan.searched);
  await page.getByRole('button', { name: 'Search' }).click();
  await page.waitForURL(/tool=/);
  const tools = await page.locator('tbody tr td:nth-child(2)').allInnerTexts();
  if (tools.length === 0 || tools.some(t => t !== plan.searched)) wrong('a search without JavaScript', tools);
  await page.locator('tbody tr a').first().click();
  await page.waitForURL(/\/calls\/.+/);
  if (!(await page.locator('main').innerText()).includes('Waterfall')) wrong('a link without JavaScript', page.url());
}

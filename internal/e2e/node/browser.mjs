// A browser that looks at the console, and writes down what is wrong with a page: what axe
// finds, errors of the console and of scripts, reports of the content security policy,
// dialogs, files that are missing, and what is wider than the window.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const standards = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

// patience bounds each wait for a page, in milliseconds.
export const patience = 10_000;

// plan is what the test in Go wants: the path of the browser, the URL of the console, and more.
export const plan = JSON.parse(readFileSync(0, 'utf8'));

const problems = [];
const facts = {};

// wrong writes a problem down.
export const wrong = (where, what) => problems.push(`${where}: ${String(what).slice(0, 2000)}`);

// fact writes down what the test in Go looks at.
export const fact = (name, value) => { facts[name] = value; };

// The window sizes and color schemes in which every view is looked at.
export const sizes = [1440, 390];
export const schemes = ['light', 'dark'];

// run starts a browser, does the work, and tells the test in Go what was found.
export async function run(work) {
  // The tests may run as root, where Chromium has no sandbox of its own.
  const browser = await chromium.launch({ executablePath: plan.chromium, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
  try {
    await work(browser);
  } catch (e) {
    wrong('the script', e.stack);
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify({ problems, facts }));
}

// open returns a page of a new session whose problems are written down. link signs it in.
export async function open(browser, link, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on('pageerror', e => wrong(page.url(), e.stack));
  page.on('dialog', d => { wrong(page.url(), `a dialog: ${d.message()}`); d.dismiss(); });
  page.on('requestfailed', r => { if (r.failure()?.errorText !== 'net::ERR_ABORTED') wrong(page.url(), `${r.url()}: ${r.failure()?.errorText}`); });
  page.on('request', r => { if (!r.url().startsWith(plan.url) && !r.url().startsWith('data:')) wrong(page.url(), `a request elsewhere: ${r.url()}`); });
  page.expected = new Set(); // statuses of answers that are meant
  page.on('console', m => {
    if (m.type() !== 'error' && m.type() !== 'warning') return;
    if (m.text() === 'Event' && m.location().url.includes('/assets/htmx')) return; // a stream breaks when its page is left
    const status = /responded with a status of (\d+)/.exec(m.text())?.[1];
    if (!page.expected.has(Number(status))) wrong(page.url(), `the browser says: ${m.text()}`);
  });
  if (options.javaScriptEnabled !== false) {
    await context.exposeFunction('reportPolicy', what => wrong(page.url(), `content security policy: ${what}`));
    await context.addInitScript(() => document.addEventListener('securitypolicyviolation', e => window.reportPolicy(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`)));
  }
  if (link) await page.goto(link);
  return page;
}

// visit opens a path, and says what was answered.
export async function visit(page, path) {
  const answer = await page.goto(plan.url + path, { waitUntil: 'load' });
  return answer.status();
}

// look looks for what axe finds on a page, and for what is wider than the window.
export async function look(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(tags => window.axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] }), standards);
  if (found.passes.length < 5) wrong(where, `axe has looked at ${found.passes.length} rules only`);
  for (const v of found.violations) wrong(where, `axe: ${v.id}: ${v.help}: ${v.nodes.map(n => `${n.html} ${n.failureSummary}`).slice(0, 3).join(' | ')}`);
  const [has, may] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  if (has > may) wrong(where, `the page is ${has} pixels wide in a window of ${may}`);
}

// picture keeps what a page looks like.
export async function picture(page, name) {
  if (!plan.pictures) return;
  mkdirSync(plan.pictures, { recursive: true });
  await page.screenshot({ path: join(plan.pictures, `${name}.png`), fullPage: true, animations: 'disabled' });
}

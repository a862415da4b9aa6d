// Does every action of the console with the keyboard alone. A person sees where the focus is:
// each step moves it by keys, and looks at what it has reached.
import { fact, open, patience, plan, run, visit, wrong } from './browser.mjs';

// Person has a keyboard and no mouse.
class Person {
  constructor(page) {
    this.page = page;
  }

  // focus tells what has the focus, as a reader of the screen would.
  focus() {
    return this.page.evaluate(() => {
      const e = document.activeElement;
      return `${e.tagName.toLowerCase()} ${e.labels?.[0]?.innerText ?? e.getAttribute('aria-label') ?? e.innerText?.slice(0, 80) ?? ''}`.trim();
    });
  }

  // to presses Tab until the focus is on an element, whose outline has to be visible.
  async to(what, most = 120) {
    for (let i = 0; i < most; i++) {
      await this.page.keyboard.press('Tab');
      if (what.test(await this.focus())) {
        const outline = await this.page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        if (outline === 'none') wrong(this.page.url(), `nobody sees the focus on ${await this.focus()}`);
        return;
      }
    }
    throw new Error(`Tab does not reach ${what}`);
  }

  press(key) {
    return this.page.keyboard.press(key);
  }

  // leads presses a key that leads to another page.
  async leads(key, to) {
    await Promise.all([this.page.waitForURL(to), this.press(key)]);
    await this.page.waitForLoadState('load');
  }

  type(text) {
    return this.page.keyboard.type(text);
  }
}

const says = (page, text) => page.getByText(text).first().waitFor();

async function views(page, person) {
  for (const [key, path] of Object.entries({ c: '/calls', t: '/catalog', r: '/try', a: '/approvals', b: '/budgets', w: '/access', u: '/runs', j: '/jobs', s: '/searches', g: '/replicas', n: '/now' })) {
    await person.leads(key, url => url.pathname === path);
  }
}

async function accept(page, person) {
  await person.leads('t', /\/catalog$/);
  await person.to(/^a desk__shred$/);
  await person.leads('Enter', /entry/);
  await says(page, 'Held definition');
  await person.to(/^input Reason/);
  await person.type('looked at it');
  await person.to(/^button Accept this definition/);
  await person.press('Enter');
  await page.getByText('Held definition').waitFor({ state: 'detached' });
}

async function disable(page, person) {
  await person.to(/^button Disable$/);
  await person.press('Enter');
  await says(page, ', disabled');
}

async function enable(page, person) {
  await person.to(/^button Enable$/);
  await person.press('Space');
  await says(page, ', enabled');
}

async function restrict(page, person) {
  await person.to(/^input Persona/);
  await person.type('intern');
  await person.to(/^button Deny to the persona$/);
  await person.press('Enter');
  await says(page, 'Denied to');
}

async function approve(page, person) {
  await person.leads('a', /\/approvals$/);
  await person.to(/^a desk__send_letter$/);
  await person.leads('Enter', /\/approvals\/apr_/);
  await says(page, 'Dear Carol');
  await person.press('y');
  if (!/^button Approve/.test(await person.focus())) throw new Error('y does not lead to the button');
  await person.leads('Enter', /\/approvals$/);
  await says(page, 'nothing waits');
}

async function mode(page, person) {
  await person.leads('n', /\/now$/);
  await person.to(/^summary Change the mode/);
  await person.press('Enter');
  await person.to(/^select Mode/);
  await person.press('ArrowDown');
  await person.to(/^input Reason/);
  await person.type('a drill');
  await person.press('Enter');
  await says(page, 'ALERT');
  await says(page, 'a drill');
}

async function copies(page, person) {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await person.leads('c', /\/calls$/);
  await person.to(/^button copy [0-9a-f]{8}/);
  await person.press('Enter');
  await says(page, 'copied');
  const [copied, shown] = [await page.evaluate(() => navigator.clipboard.readText()), await page.locator('tbody .id').first().innerText()];
  if (copied !== shown) throw new Error(`${copied} is not ${shown}`);
}

async function answer(page, person) {
  await person.leads('r', /\/try$/);
  await person.to(/^input API key/);
  await person.type(plan.key);
  await person.press('Enter');
  await says(page, 'Calls are made as');
  await person.to(/^a desk__ask$/);
  await person.leads('Enter', /\/try\/tool/);
  await person.to(/^button Call$/);
  await person.leads('Enter', /\/try\/calls\//);
  await says(page, 'Which drawer is meant?');
  await person.to(/^select drawer/);
  await person.press('ArrowDown');
  await person.press('ArrowDown');
  await person.to(/^button Accept/);
  await person.press('Enter');
  await page.getByText('"drawer":"lower"').first().waitFor();
}

async function search(page, person) {
  await person.leads('c', /\/calls$/);
  await person.press('/');
  if (!/^input Tool/.test(await person.focus())) throw new Error('/ does not lead to the search');
  await person.type('demo__add');
  await person.press('Enter');
  await page.waitForURL(/tool=demo__add/);
  await page.waitForFunction(() => [...document.querySelectorAll('tbody tr td:nth-child(2)')].every(t => t.innerText === 'demo__add'), null, { timeout: patience });
}

async function signOut(page, person) {
  await person.to(/^button Sign out$/);
  await person.leads('Enter', /\/sign-in/);
  page.expected = new Set([401]);
  await visit(page, '/calls');
  if (!page.url().includes('/sign-in')) throw new Error('the session goes on');
}

await run(async browser => {
  const page = await open(browser, plan.link);
  const person = new Person(page);
  for (const [what, work] of [
    ['opens each view by its letter', views], ['accepts a definition', accept], ['disables a tool', disable], ['enables it', enable],
    ['denies it to a persona', restrict], ['approves a call', approve], ['copies an id', copies],
    ['answers a question of a tool', answer], ['searches', search], ['changes the mode', mode], ['signs out', signOut],
  ]) {
    try {
      await work(page, person);
      fact(what, true);
    } catch (e) {
      wrong(`the keyboard ${what}`, `${e.stack}\nat ${page.url()} with the focus on ${await person.focus()}`);
    }
  }
});

// What the asking servers ask, and how a client of the tests answers. The Python
// and Go servers and clients ask and answer the same.
//
// Each question is a tool and a prompt of that name. It takes a canary, which is
// part of what is asked, and returns what its server heard.

export const questions = {
  form: [{ kind: 'elicitation', text: canary => `${canary} form` }],
  declined: [{ kind: 'elicitation', text: canary => `${canary} please decline` }],
  sampling: [{ kind: 'sampling', text: canary => `${canary} sampling` }],
  two: [
    { kind: 'elicitation', text: canary => `${canary} first` },
    { kind: 'sampling', text: (canary, heard) => `${canary} second after ${heard[0]}` },
  ],
  roots: [{ kind: 'roots' }],
};

export const wordSchema = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] };

// params are those of the request that asks step. Roots are asked without any.
export function params(step, canary, heard) {
  if (step.kind === 'elicitation') {
    return { mode: 'form', message: step.text(canary, heard), requestedSchema: wordSchema };
  }
  return { messages: [{ role: 'user', content: { type: 'text', text: step.text(canary, heard) } }], maxTokens: 64 };
}

// hear writes an answer down.
export function hear(step, answer) {
  switch (step.kind) {
    case 'elicitation':
      return answer.action === 'accept' ? `accept ${answer.content.word}` : answer.action;
    case 'sampling':
      return [answer.content].flat()[0].text;
    default:
      return answer.roots.map(r => r.uri).join(',');
  }
}

export const toolResult = heard => ({ content: [{ type: 'text', text: heard.join(' then ') }] });
export const promptResult = heard => ({ messages: [{ role: 'user', content: { type: 'text', text: heard.join(' then ') } }] });

// Person answers the questions of one client: with its secret, which no server
// is told otherwise, and with what it was asked. asked keeps all of it.
export class Person {
  asked = [];

  constructor(secret) {
    this.secret = secret;
  }

  elicit({ message }) {
    this.asked.push(message);
    if (message.endsWith('please decline')) return { action: 'decline' };
    if (message.includes('asks you to run')) return { action: 'accept', content: { output: this.secret } };
    return { action: 'accept', content: { word: `${this.secret}|${message}` } };
  }

  sample({ messages }) {
    const text = [messages.at(-1).content].flat()[0].text;
    this.asked.push(text);
    return { role: 'assistant', model: 'none', content: { type: 'text', text: `${this.secret}|${text}` } };
  }

  roots() {
    this.asked.push('roots');
    return { roots: [{ uri: `file:///home/${this.secret}`, name: 'home' }] };
  }
}

// capabilities are those of a client that can answer everything.
export const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };

// fauxqs with one FIFO queue. An effect is a message that the queue has.
'use strict';
const { register } = require('node:module');

// Its persistence, which is not used here, imports a module that exists since Node 22.5.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 5)) {
  const empty = 'data:text/javascript,export class DatabaseSync {}';
  register(
    'data:text/javascript,' +
      encodeURIComponent(`export async function resolve(name, context, next) {
        return name === 'node:sqlite' ? { url: '${empty}', shortCircuit: true } : next(name, context);
      }`),
  );
}

(async () => {
  const { buildApp } = await import('fauxqs');
  const app = buildApp({ logger: false });
  const ask = async (action, payload) => {
    const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.' + action };
    return (await app.inject({ method: 'POST', url: '/', headers, payload })).json();
  };
  app.get('/effects', async () => {
    const name = 'ApproximateNumberOfMessages';
    const { Attributes } = await ask('GetQueueAttributes', { QueueUrl, AttributeNames: [name] });
    return { effects: Number(Attributes[name]) };
  });
  const { QueueUrl } = await ask('CreateQueue', { QueueName: 'orders.fifo', Attributes: { FifoQueue: 'true' } });
  const [host, port] = process.env.ADDRESS.split(':');
  await app.listen({ host, port: Number(port) });
})();

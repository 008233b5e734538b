// A program that does durable work with DBOS, as its documentation shows it: a workflow with one step, and an ID given to
// it. It is told what to do by lines of JSON on standard input, and answers on file descriptor 3.
import { DBOS } from '@dbos-inc/dbos-sdk';
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [url, response] = process.argv.slice(2);
let ran = 0;

const charge = DBOS.registerWorkflow(
  async (order) =>
    DBOS.runStep(
      async () => {
        ran++;
        return response;
      },
      { name: 'charge' },
    ),
  { name: 'payment' },
);

// work has callers make calls, one after the other each, for some milliseconds or until all keys have had their turn.
async function work({ prefix, among, callers, millis, all }) {
  const before = ran;
  const began = performance.now();
  let next = 0;
  let count = 0;
  const caller = async () => {
    while (all ? next < among : performance.now() - began < millis) {
      const i = next++;
      const workflowID = `${prefix}-${among ? i % among : i}`;
      const handle = await DBOS.startWorkflow(charge, { workflowID })({ order: workflowID, amount: 4200 });
      if ((await handle.getResult()) !== response) {
        throw new Error(`${workflowID}: another result`);
      }
      count++;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return { count, millis: performance.now() - began, ran: ran - before };
}

const answer = (value) => writeSync(3, JSON.stringify(value) + '\n');

// More connections than DBOS opens by itself did not make it faster.
DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: url,
  applicationVersion: '1',
  logLevel: 'error',
  enableOTLP: false,
});
await DBOS.launch();
answer({});
for await (const line of createInterface({ input: process.stdin })) {
  answer(await work(JSON.parse(line)));
}
await DBOS.shutdown();

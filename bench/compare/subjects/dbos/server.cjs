// A service whose work is a workflow of DBOS, with the request's key as the workflow's ID, as its documentation on idempotency shows.
'use strict';
const { DBOS } = require('@dbos-inc/dbos-sdk');
const orders = require('./orders/orders.cjs');

const order = DBOS.registerWorkflow(
  (job) => DBOS.runStep(() => orders.work(job.path, job.order), { name: 'create' }),
  { name: 'order' },
);

DBOS.setConfig({ name: 'orders', systemDatabaseUrl: orders.store, applicationVersion: '1', logLevel: 'error', enableOTLP: false });
DBOS.launch().then(() =>
  orders.jobs(async (workflowID, job) => (await DBOS.startWorkflow(order, { workflowID })(job)).getResult()),
);

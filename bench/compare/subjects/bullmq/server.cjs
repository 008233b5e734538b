// A service that does its work in a queue of BullMQ, with the request's key as the jobId, which its documentation on deduplication and
// idempotent jobs names for that: a job with an ID that exists is not added again.
'use strict';
const { Queue, QueueEvents, Worker } = require('bullmq');
const orders = require('./orders/orders.cjs');

const connection = { url: orders.store, maxRetriesPerRequest: null };
const queue = new Queue('orders', { connection });
const events = new QueueEvents('orders', { connection });
new Worker('orders', (job) => orders.work(job.data.path, job.data.order), { connection, concurrency: 50 });

events.waitUntilReady().then(() =>
  orders.jobs(async (jobId, data) => (await queue.add('order', data, { jobId })).waitUntilFinished(events)),
);

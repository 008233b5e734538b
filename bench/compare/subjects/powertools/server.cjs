// A service whose operation is made idempotent by Powertools for AWS Lambda, as its documentation shows it: the key comes from a header
// of the event, records are in Redis.
'use strict';
process.env.AWS_LAMBDA_FUNCTION_NAME = 'orders'; // is part of the records' keys
const {
  IdempotencyAlreadyInProgressError,
  IdempotencyConfig,
  makeIdempotent,
} = require('@aws-lambda-powertools/idempotency');
const { CachePersistenceLayer } = require('@aws-lambda-powertools/idempotency/cache');
const { createClient } = require('@redis/client');
const orders = require('./orders/orders.cjs');

const run = async ({ job }) => {
  const answer = await orders.work(job.path, job.order);
  if (answer.status >= 500) {
    throw new Error(answer.body.error); // then the record is deleted
  }
  return answer;
};

createClient({ url: orders.store })
  .connect()
  .then((client) => {
    const config = new IdempotencyConfig({ eventKeyJmesPath: 'headers."idempotency-key"' });
    config.registerLambdaContext({ getRemainingTimeInMillis: () => 30000 }); // how long a record stays in progress
    const handle = makeIdempotent(run, { persistenceStore: new CachePersistenceLayer({ client }), config });
    orders.jobs(async (key, job) => {
      try {
        return await handle({ headers: { 'idempotency-key': key }, job });
      } catch (err) {
        if (err instanceof IdempotencyAlreadyInProgressError) {
          return orders.refusal(409, 'in progress');
        }
        throw err;
      }
    });
  });

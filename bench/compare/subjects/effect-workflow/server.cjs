// A service whose work is a workflow of @effect/workflow, as its README shows it: the request's key is the workflow's idempotencyKey, and
// the engine is the one in memory that comes with the package.
'use strict';
const { Activity, Workflow, WorkflowEngine } = require('@effect/workflow');
const { Effect, Layer, ManagedRuntime, Schema } = require('effect');
const orders = require('./orders/orders.cjs');

const Order = Workflow.make({
  name: 'Order',
  payload: { key: Schema.String, job: Schema.Any },
  success: Schema.Any,
  idempotencyKey: ({ key }) => key,
});
const OrderLayer = Order.toLayer(({ job }) =>
  Activity.make({
    name: 'create',
    success: Schema.Any,
    execute: Effect.promise(() => orders.work(job.path, job.order)),
  }),
);
const runtime = ManagedRuntime.make(OrderLayer.pipe(Layer.provideMerge(WorkflowEngine.layerMemory)));

orders.jobs((key, job) => runtime.runPromise(Order.execute({ key, job })));

// The orders API on Express behind express-idempotency with its adapter for Redis, as the adapter's README shows it.
'use strict';
const express = require('express');
const { idempotency, getSharedIdempotencyService } = require('express-idempotency');
const RedisAdapter = require('express-idempotency-redis-adapter').default;
const orders = require('./orders/orders.cjs');

const dataAdapter = new RedisAdapter({ connectionConfig: { url: orders.store } });
dataAdapter.connect().then(() =>
  orders.express(express(), {
    guard(app) {
      app.use(express.json());
      app.post('*', idempotency({ dataAdapter }));
    },
    once: (handler) => (req, res) => {
      if (!getSharedIdempotencyService().isHit(req)) {
        handler(req, res);
      }
    },
  }),
);

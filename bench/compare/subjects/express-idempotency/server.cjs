// The orders API on Express behind express-idempotency, as its README shows it: the middleware with its defaults on every POST, and
// handlers that leave at a hit, because then the middleware has answered.
'use strict';
const express = require('express');
const { idempotency, getSharedIdempotencyService } = require('express-idempotency');
const orders = require('./orders/orders.cjs');

orders.express(express(), {
  guard(app) {
    app.use(express.json());
    app.post('*', idempotency());
  },
  once: (handler) => (req, res) => {
    if (!getSharedIdempotencyService().isHit(req)) {
      handler(req, res);
    }
  },
});

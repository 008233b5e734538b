// Parse Server on PostgreSQL with idempotency enforcement for all classes, as its README shows it. An effect is an object that it has.
'use strict';
const express = require('express');
const { ParseServer } = require('parse-server');
const { store, listen } = require('./orders/orders.cjs');

const classes = ['Order', 'ORDER', 'Other', 'Slow', 'Failing']; // paths of another spelling create other classes
const serverURL = `http://${process.env.ADDRESS}/parse`;
const parse = new ParseServer({
  databaseURI: store.replace('postgresql:', 'postgres:'),
  appId: 'orders',
  masterKey: 'master',
  restAPIKey: 'rest',
  serverURL,
  allowClientClassCreation: true,
  silent: true,
  logsFolder: null,
  idempotencyOptions: { paths: ['.*'], ttl: 120 },
  cloud() {
    global.Parse.Cloud.beforeSave('Slow', () => new Promise((resolve) => setTimeout(resolve, 1000)));
    global.Parse.Cloud.beforeSave('Failing', () => {
      throw 'no money';
    });
  },
});

(async () => {
  await parse.start();
  const app = express();
  const headers = { 'X-Parse-Application-Id': 'orders', 'X-Parse-Master-Key': 'master' };
  const count = async (name) => {
    // Without a condition, the count would be PostgreSQL's estimate. A class that has had no object does not exist.
    const where = encodeURIComponent('{"amount": {"$exists": true}}');
    const found = await fetch(`${serverURL}/classes/${name}?count=1&limit=0&where=${where}`, { headers });
    return (await found.json()).count ?? 0;
  };
  app.get('/effects', async (req, res) => {
    const counts = await Promise.all(classes.map(count));
    res.json({ effects: counts.reduce((sum, n) => sum + n, 0) });
  });
  app.use('/parse', parse.app);
  listen(app);
})();

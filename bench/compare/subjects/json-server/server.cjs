// json-server as a module, as its README shows it: a REST API on a JSON file.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const jsonServer = require('json-server');
const { dir, listen } = require('./orders/orders.cjs');

const file = path.join(dir, 'db.json');
if (!fs.existsSync(file)) {
  fs.writeFileSync(file, '{"orders": [], "others": []}');
}
const server = jsonServer.create();
const router = jsonServer.router(file);
server.get('/effects', (req, res) => {
  const { orders, others } = router.db.getState();
  res.json({ effects: orders.length + others.length });
});
server.use(jsonServer.defaults({ logger: false }));
server.use(router);
listen(server);

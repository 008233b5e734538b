// The orders API on NestJS behind @node-idempotency/nestjs, as its README shows it: the module with storage in memory, and its
// decorator Idempotent on the handler. What TypeScript writes as decorators is called here.
'use strict';
require('reflect-metadata');
const { Controller, HttpException, Module, Post, Req, Res } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { Idempotent, NodeIdempotencyModule } = require('@node-idempotency/nestjs');
const { StorageAdapterEnum } = require('@node-idempotency/shared');
const orders = require('./orders/orders.cjs');

class OrdersController {
  async create(req, res) {
    const answer = await orders.work(req.path.replace(/\/+$/, ''), req.body);
    if (answer.status >= 400) {
      throw new HttpException(answer.body, answer.status);
    }
    res.set(orders.headers(answer)).status(answer.status);
    return answer.body;
  }
}
const create = Object.getOwnPropertyDescriptor(OrdersController.prototype, 'create');
Post(orders.paths)(OrdersController.prototype, 'create', create);
Idempotent()(OrdersController.prototype, 'create', create);
Req()(OrdersController.prototype, 'create', 0);
Res({ passthrough: true })(OrdersController.prototype, 'create', 1);
Controller()(OrdersController);

class App {}
Module({
  imports: [NodeIdempotencyModule.forRootAsync({ storage: { adapter: StorageAdapterEnum.memory } })],
  controllers: [OrdersController],
})(App);

(async () => {
  const app = await NestFactory.create(App, { logger: ['error'] });
  orders.authenticate(app.getHttpAdapter().getInstance());
  await app.init();
  orders.listen(app.getHttpServer());
})();

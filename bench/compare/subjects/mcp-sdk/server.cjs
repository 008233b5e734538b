// An MCP server with one tool that creates an order, on the streamable HTTP transport without sessions, as the README of the SDK shows it.
'use strict';
const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js');
const express = require('express');
const { z } = require('zod');
const orders = require('./orders/orders.cjs');

function server() {
  const mcp = new McpServer({ name: 'orders', version: '1.0.0' });
  mcp.registerTool(
    'create_order',
    {
      description: 'Creates an order',
      inputSchema: { amount: z.number(), note: z.string() },
      outputSchema: { id: z.string(), amount: z.string() },
    },
    async (order) => {
      const created = orders.create(order);
      return { content: [{ type: 'text', text: JSON.stringify(created) }], structuredContent: created };
    },
  );
  return mcp;
}

const app = express();
orders.authenticate(app);
app.post('/mcp', express.json(), async (req, res) => {
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  res.on('close', () => transport.close());
  await server().connect(transport);
  await transport.handleRequest(req, res, req.body);
});
orders.listen(app);

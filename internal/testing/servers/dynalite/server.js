// The server of the tests: node server.js PORT [FOLDER]. The tables are in FOLDER, or in memory.
const dynalite = require('dynalite')

const [port, path] = process.argv.slice(2)
const server = dynalite({ path, createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 })

// Dynalite ends its process when a client leaves in the middle of a request, because it throws from this listener.
server.prependListener('request', (request) => {
  const { on } = request
  request.on = (event, listener) => (event === 'error' ? request : on.call(request, event, listener))
})
server.listen(port, '127.0.0.1')

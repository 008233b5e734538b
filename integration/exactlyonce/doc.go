// Package exactlyonce measures the guarantee of a service that completes its keys in its own transactions, through the
// functions of the schema: it kills and pauses the service, the proxy and the database server, counts what each kill
// does, and prints the counts as a table, which docs/exactly-once-measured.md shows.
//
// # How it works
//
// The folder services has the same small service in several languages. It inserts a row into the table charges and
// completes the key, in one transaction. On its way it tells the test each boundary that it reaches, and waits for the
// answer: so the test can kill it, or something else, exactly there. A kill hits one request, because each request has
// a process of its own: services in Python, Ruby and PHP fork, the others are started for each connection.
//
// Clients retry with the same key until they have a final answer. At the end the test compares the table charges, in
// which nothing prevents a second charge for the same order, the records, and the answers of all clients.
//
// The control is the same service with its completion taken out of the transaction. It must charge orders twice: so the
// test is known to see it.
package exactlyonce

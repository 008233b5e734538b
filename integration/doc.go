// Package integration holds tests that need several parts of the project, such as histories of real stores that are
// checked for linearizability. Its subfolders test guides, recipes, clients, queues, the outbox, and gRPC with
// Connect.
package integration

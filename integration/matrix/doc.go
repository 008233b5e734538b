// Package matrix makes every fault of a list happen to every store under every policy, and counts the effects in a
// ledger that the product does not know. docs/proof-crash-matrix.md shows the cells.
//
// # How it works
//
// A cell is a fault, a policy and a store. Its script is a line of faults.txt: a client's request is led to a point and
// held there, something is killed, stopped, cut or filled, other clients send the request again, and in the end all
// faults are over and two more clients ask for the answer. The seed decides how many clients come, where, and how long
// things take.
//
// The program that is killed is this test binary, run again as a worker: it has the store, a Guard and the work, and
// holds its calls at points that the harness names (worker_test.go, work_test.go). It tells all that it sees on stdout.
// Effects are written to a file for each key, synced, or are rows of the transaction that completes the key.
// judge_test.go compares all that with what the policy promises.
//
// # Where things are
//
//   - faults.txt, faults.go, promises.go: the cells, as data; which of them cannot be, and which are known limits
//   - results.go: results.json and the page
//   - matrix_test.go: the test; cell_test.go, stand_test.go, relay_test.go: the harness; judge_test.go
//   - linearizable_test.go: histories of calls under the same faults, judged by internal/testing/torture
//   - worker_test.go, delivery_test.go, work_test.go, open_test.go: the worker
//   - planted_test.go, planted_cells_test.go: stores that are broken on purpose, and what the judge sees of them
package matrix

// Package client is the engine of clients whose requests are safe to retry: it chooses one key for each intent, sends
// the request as often as it takes under that key, and stops when the answer is final or the outcome can no longer be
// known.
//
// Programs use it through a transport: [github.com/retrysafe/retrysafe/client/httpclient] for net/http, and the client
// interceptors of the packages grpcsafe and connectsafe. A transport only writes the key on its requests and says what
// a reply means, as a Signal; all rules are here. What programs use of this package is the same for every transport:
//
//   - Options, and the Observer that is told of each attempt (options.go, observe.go)
//   - [WithIntent], [WithKey], [WithOperation], [WithCredential], which say what a request is for (intent.go)
//   - [ErrOutcomeUnknown], [ErrNotReplayable] and the other errors (errors.go)
//   - Journal and Resume, which outlast a crash (journal.go, resume.go); client/filejournal and client/sqljournal are
//     journals, client/journaltest checks others
//
// Transports use Engine and implement Exchange (engine.go, signal.go). How a key is chosen is in key.go, whether
// another attempt is made in retry.go and budget.go.
//
// design.md in the folder of this package says why it is built so.
package client

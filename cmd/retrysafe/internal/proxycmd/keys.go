package proxycmd

import (
	"log/slog"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// keysOf returns the keys of the store, for people. It knows the keys that the upstream got.
func (p *plan) keysOf(store retrysafe.Store, observer retrysafe.Observer) keys.Keys {
	return keys.Local{
		Store: store.(retrysafe.Inspector), // each store of this command is one
		Guard: retrysafe.New(store, retrysafe.Options{Observer: observer, ChildSecret: p.guard.ChildSecret}),
	}
}

// serveKeys listens beside a SQLite file for "retrysafe keys", because no other process can open the file meanwhile.
// It returns the function that stops it. A proxy that cannot listen there works all the same.
func (p *plan) serveKeys(log *slog.Logger, store retrysafe.Store, observer retrysafe.Observer) (stop func()) {
	file, ok := retrysafe.As[*sqlitestore.Store](store)
	if !ok {
		return func() {}
	}
	listener, err := keys.Listen(file.Path())
	if err != nil {
		log.Warn("retrysafe keys cannot reach this proxy", "error", err, "do",
			"stop the proxy before you use retrysafe keys with its store")
		return func() {}
	}
	server := &http.Server{
		Handler:           keys.Handler(p.keysOf(store, observer)),
		ReadHeaderTimeout: p.config.Limits.HeaderTimeout.Value,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := ended(server.Serve(listener)); err != nil {
			log.Warn("retrysafe keys can no longer reach this proxy", "error", err)
		}
	}()
	return func() {
		server.Close()
		listener.Close() // also if Serve was not reached: it removes the socket
	}
}

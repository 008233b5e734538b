//go:build unix

package gateways

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

var shared servers.SharedPostgres

// stand is a service that charges orders, and two proxies in front of it.
type stand struct {
	*testing.T
	pool    *pgxpool.Pool
	proxies [2]*servers.Service
	next    atomic.Pointer[place]
}

// place is a request of a kind that comes through a proxy. If stop is set, it stops between its effect and its answer until
// the proxy is killed. reached is closed once it is there.
type place struct {
	proxy   int
	kind    string
	stop    bool
	reached chan struct{}
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{T: t}
	url := shared.Get(t).Database(t)
	var err error
	if s.pool, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	if _, err := pgstore.Migrate(t.Context(), s.pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The order is not unique: nothing but its key keeps an order from being charged twice.
	_, err = s.pool.Exec(t.Context(), "CREATE TABLE charges (id serial PRIMARY KEY, order_id text NOT NULL)")
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.proxies {
		service := httptest.NewServer(s.service(i))
		t.Cleanup(service.Close)
		s.proxies[i] = s.startProxy(url, strings.TrimPrefix(service.URL, "http://"))
	}
	return s
}

// startProxy starts the command with the page's configuration, with a shorter lease: a proxy that is killed between its
// claim and its request to the service blocks a client for that long.
func (s *stand) startProxy(store, upstream string) *servers.Service {
	s.Helper()
	program, err := servers.Retrysafe()
	if err != nil {
		s.Fatal(err)
	}
	config := filepath.Join(s.TempDir(), "proxy.yaml")
	s.write(config, block(s.T, "proxy.yaml"), "127.0.0.1:3000", upstream, "postgres://proxy@db/shop", store,
		"lease: 15s", "lease: 3s")
	return servers.StartService(s.T, "retrysafe", func(port string) []string {
		return []string{program, "proxy", "--config=" + config, "--listen=127.0.0.1:" + port}
	})
}

// start starts a gateway with a configuration of the page, and returns its URL. changes are pairs of a text of the
// configuration and what replaces it.
func (s *stand) start(g gateway, changes ...string) string {
	s.Helper()
	return servers.StartService(s.T, g.name, func(port string) []string {
		config := filepath.Join(s.TempDir(), g.file)
		addresses := []string{"8080", port}
		for i, from := range []string{"8081", "8082"} {
			addresses = append(addresses, from, s.proxies[i].URL()[strings.LastIndex(s.proxies[i].URL(), ":")+1:])
		}
		s.write(config, block(s.T, g.file), append(addresses, changes...)...)
		command, err := g.command(config, port)
		if err != nil {
			s.Fatal(err)
		}
		return command
	}).URL()
}

// write writes a file whose text is changed. Each text that is replaced must be there.
func (s *stand) write(path, text string, changes ...string) {
	s.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			s.Fatalf("%s on %s does not say %q", filepath.Base(path), page, changes[i])
		}
	}
	text = strings.NewReplacer(changes...).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

const page = "../../docs/gateways.md"

// block returns the file that the page shows.
func block(t *testing.T, name string) string {
	t.Helper()
	blocks, err := pages.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.File == name {
			return b.Text
		}
	}
	t.Fatalf("%s has no block with file=%s", page, name)
	return ""
}

// service charges each order that it gets through a proxy.
func (s *stand) service(proxy int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) {
		var order string
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id, err := s.charge(r, order)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		kind, _, _ := strings.Cut(order, " ")
		at := s.next.Load()
		if at != nil && at.proxy == proxy && at.kind == kind && s.next.CompareAndSwap(at, nil) {
			close(at.reached)
			if at.stop {
				<-r.Context().Done()
				return
			}
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, id)
	})
	return mux
}

// charge charges an order and, if it came with a key, completes the key in the same transaction. Like most services it
// does not stop when its client disconnects.
func (s *stand) charge(r *http.Request, order string) (id int, err error) {
	ctx := s.Context()
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		lease := r.Header.Get("Retrysafe-Lease")
		if lease != "" {
			if _, err := tx.Exec(ctx, "SELECT retrysafe.hold($1)", lease); err != nil {
				return err
			}
		}
		err := tx.QueryRow(ctx, "INSERT INTO charges (order_id) VALUES ($1) RETURNING id", order).Scan(&id)
		if err == nil && lease != "" {
			_, err = tx.Exec(ctx, "SELECT retrysafe.complete($1, $2::text, 201)", lease, fmt.Sprint(id))
		}
		return err
	})
	return id, err
}

// charges returns the numbers of the charges by order.
func (s *stand) charges() map[string][]string {
	s.Helper()
	all := map[string][]string{}
	rows, err := s.pool.Query(s.Context(), "SELECT order_id, id FROM charges")
	if err != nil {
		s.Fatal(err)
	}
	var order string
	var id int
	_, err = pgx.ForEachRow(rows, []any{&order, &id}, func() error {
		all[order] = append(all[order], fmt.Sprint(id))
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return all
}

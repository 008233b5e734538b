// Command goservice is a service that charges exactly once, with the driver pgx, or with go-sql-driver/mysql. If DATABASE
// is a path, it has neither a database nor a key, and writes a line for each charge. It serves one connection, which is its
// standard input. It tells the test at which boundary it is, and waits until the test lets it continue, so that the test
// can kill it there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

func main() {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan net.Conn, 1)
	served <- conn
	log.Fatal(http.Serve(listener{served, conn.LocalAddr()}, http.HandlerFunc(serve)))
}

// listener accepts the one connection.
type listener struct {
	served  chan net.Conn
	address net.Addr
}

func (l listener) Accept() (net.Conn, error) { return <-l.served, nil }
func (l listener) Addr() net.Addr            { return l.address }
func (l listener) Close() error              { return nil }

func serve(w http.ResponseWriter, r *http.Request) {
	var request struct{ Order string }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		log.Fatal(err)
	}
	s := &service{test: dial(request.Order), order: request.Order, w: w}
	work := s.run
	switch database := os.Getenv("DATABASE"); {
	case strings.HasPrefix(database, "/"):
		work = s.append
	case strings.HasPrefix(database, "mysql://"):
		work = s.runMySQL
	}
	if err := work(context.Background(), r.Header.Get("Retrysafe-Lease")); err != nil {
		text, _ := json.Marshal(map[string]string{"error": err.Error()})
		s.respond(http.StatusInternalServerError, string(text))
	}
	s.test.reach("responded")
	os.Exit(0)
}

// service is the work for one request.
type service struct {
	test  boundaries
	order string
	w     http.ResponseWriter
	db    *pgx.Conn
}

func (s *service) run(ctx context.Context, lease string) (err error) {
	if s.db, err = pgx.Connect(ctx, os.Getenv("DATABASE")); err != nil {
		return err
	}
	if lease == "" {
		if lease, err = s.claim(ctx); err != nil || lease == "" {
			return err
		}
	}
	s.test.reach("claimed")
	answer, err := s.charge(ctx, lease)
	if err != nil {
		return err
	}
	s.test.reach("committed")
	s.respond(http.StatusCreated, answer)
	return nil
}

// claim does without the proxy what the proxy does: it claims the key, or answers with what the record says.
func (s *service) claim(ctx context.Context) (string, error) {
	s.test.reach("unclaimed")
	var verdict string
	var lease, body *string
	var code, left *int
	err := s.db.QueryRow(ctx, `
		SELECT verdict, lease, code, convert_from(body, 'UTF8'), (extract(epoch FROM lease_left) * 1000)::integer
		FROM retrysafe.claim('charges', $1, lease_for => $2, take_over => true)`,
		s.order, os.Getenv("LEASE")).Scan(&verdict, &lease, &code, &body, &left)
	switch {
	case err != nil:
		return "", err
	case verdict == "acquired":
		return *lease, nil
	case verdict == "done":
		s.respond(*code, *body)
	default:
		text, _ := json.Marshal(map[string]any{"verdict": verdict, "retry_after_ms": left})
		s.respond(http.StatusConflict, string(text))
	}
	return "", nil
}

func (s *service) charge(ctx context.Context, lease string) (answer string, err error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return "", err
	}
	apart := os.Getenv("COMPLETE") == "apart" // the control: complete in a transaction of its own
	if !apart {
		if _, err := tx.Exec(ctx, "SELECT retrysafe.hold($1)", lease); err != nil {
			return "", err
		}
	}
	var amount, charge int
	if err := tx.QueryRow(ctx, "SELECT amount FROM prices WHERE article = 'book'").Scan(&amount); err != nil {
		return "", err
	}
	s.test.reach("begun")
	err = tx.QueryRow(ctx, "INSERT INTO charges (order_id, amount) VALUES ($1, $2) RETURNING id",
		s.order, amount).Scan(&charge)
	if err != nil {
		return "", err
	}
	if apart {
		if err := tx.Commit(ctx); err != nil {
			return "", err
		}
		if tx, err = s.db.Begin(ctx); err != nil {
			return "", err
		}
		if _, err := tx.Exec(ctx, "SELECT retrysafe.hold($1)", lease); err != nil {
			return "", err
		}
	}
	s.test.reach("written")
	answer = fmt.Sprintf(`{"charge": %d, "order": %q}`, charge, s.order)
	if _, err := tx.Exec(ctx, "SELECT retrysafe.complete($1, $2::text, 201)", lease, answer); err != nil {
		return "", err
	}
	s.test.reach("completed")
	return answer, tx.Commit(ctx)
}

func (s *service) respond(code int, body string) {
	s.w.Header().Set("Content-Type", "application/json")
	s.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	s.w.Header().Set("Connection", "close")
	s.w.WriteHeader(code)
	fmt.Fprint(s.w, body)
	if err := http.NewResponseController(s.w).Flush(); err != nil {
		log.Println(err)
	}
}

// boundaries is the connection to the test.
type boundaries struct {
	order string
	conn  net.Conn
	in    *bufio.Reader
}

func dial(order string) boundaries {
	conn, err := net.Dial("tcp", os.Getenv("BOUNDARIES"))
	if err != nil {
		log.Fatal(err)
	}
	return boundaries{order, conn, bufio.NewReader(conn)}
}

func (b boundaries) reach(boundary string) {
	fmt.Fprintf(b.conn, "%s %d %s\n", b.order, os.Getpid(), boundary)
	if answer, _ := b.in.ReadString('\n'); answer != "go\n" {
		os.Exit(1) // the test has ended
	}
}

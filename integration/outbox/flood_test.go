//go:build unix

package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

const (
	floodSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	countEnv    = "OUTBOX_MESSAGES"
	savers      = 8
)

// Orders are saved with one message each, relays send the messages to a receiver that is guarded by httpsafe, and all
// of these processes are killed at random. At the end every committed order has had exactly one effect, and no other
// order has one.
//
// Seen to fail with another key for each delivery (effects twice), with Save given the database instead of the
// transaction (effects of rolled-back orders), and with messages marked before they are sent (orders without an
// effect).
func TestSoakFlood(t *testing.T) {
	everywhere(t, func(k *kit) {
		n := soak.Times(k, map[outbox.Dialect]int{outbox.PostgreSQL: 240, outbox.SQLite: 100, outbox.MySQL: 160}[k.dialect])
		f := newFlood(k, n)
		limit := f.plainInserts(min(n, 5000))
		took, kills := f.run()
		f.check()
		lags := f.lags()
		k.Logf("%d messages in %v, %.0f a second, %d kills; plain INSERTs, alone: %.0f a second", n,
			took.Round(time.Millisecond),
			float64(n)/took.Seconds(), kills, limit)
		k.Logf("from save to effect: median %v, 99%% within %v, longest %v", lags[len(lags)/2],
			lags[len(lags)*99/100], lags[len(lags)-1])
	})
}

type flood struct {
	*kit
	n        int
	receiver database
	effects  *sql.DB
	listener *os.File
	address  string
}

func newFlood(k *kit, n int) *flood {
	f := &flood{kit: k, n: n, receiver: newReceiverDatabase(k)}
	k.exec("CREATE TABLE orders (id bigint PRIMARY KEY)")
	k.exec("CREATE TABLE plain (id bigint PRIMARY KEY, body text)")
	var err error
	if f.effects, err = f.receiver.open(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { f.effects.Close() })
	if _, err := f.effects.Exec("CREATE TABLE effects (id bigint NOT NULL, at bigint NOT NULL)"); err != nil {
		k.Fatal(err)
	}
	// The listener belongs to this process, so connections wait while there is no receiver.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Fatal(err)
	}
	defer l.Close()
	f.address = "http://" + l.Addr().String() + "/hooks"
	if f.listener, err = l.(*net.TCPListener).File(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { f.listener.Close() })
	return f
}

func newReceiverDatabase(k *kit) database {
	switch k.dialect {
	case outbox.PostgreSQL:
		return database{k.dialect, shared.Get(k).Database(k)}
	case outbox.MySQL:
		return database{k.dialect, sharedMariaDB.Get(k).Database(k)}
	}
	return database{k.dialect, "file:" + filepath.Join(k.TempDir(), "receiver.db") +
		"?_pragma=busy_timeout(20000)&_txlock=immediate"}
}

// plainInserts measures the rate of plain inserts with as many writers as save orders.
func (f *flood) plainInserts(n int) (perSecond float64) {
	f.Helper()
	began := time.Now()
	err := together(savers, n, func(id int) error {
		_, err := f.db.Exec(fmt.Sprintf("INSERT INTO plain VALUES (%d, 'an order')", id))
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return float64(n) / time.Since(began).Seconds()
}

// run runs all processes, and kills one of them at intervals, until every order is saved and every message sent.
func (f *flood) run() (took time.Duration, kills int) {
	f.Helper()
	began := time.Now()
	starts := []func() child{
		func() child { return f.start("save", nil, countEnv+"="+strconv.Itoa(f.n)) },
		func() child { return f.start("relay", nil, receiverEnv+"="+f.address) },
		func() child { return f.start("relay", nil, receiverEnv+"="+f.address) },
		func() child { return f.start("receive", []*os.File{f.listener}, receiverEnv+"="+f.receiver.url) },
	}
	running := make([]child, len(starts))
	for i, start := range starts {
		running[i] = start()
	}
	for !f.done() {
		pause := time.NewTimer(time.Duration(100+rand.IntN(400)) * time.Millisecond)
		<-pause.C // not a wait for a condition: this is the interval of the kills
		i := rand.IntN(len(running))
		running[i].kill()
		if code := running[i].ProcessState.ExitCode(); code == childFailed {
			f.Fatal("a process has failed by itself")
		}
		running[i] = starts[i]()
		kills++
	}
	return time.Since(began), kills
}

func (f *flood) done() bool {
	return f.count("SELECT count(*) FROM orders") == f.n && f.stats().Pending == 0
}

func (f *flood) check() {
	f.Helper()
	if letters := f.dead(); len(letters) > 0 {
		f.Errorf("%d dead letters, the first with %q", len(letters), letters[0].Error)
	}
	if n := f.count("SELECT count(*) FROM outbox WHERE state = 2"); n != f.n {
		f.Errorf("%d messages sent, want %d", n, f.n)
	}
	var effects, orders, highest int
	err := f.effects.QueryRow("SELECT count(*), count(DISTINCT id), max(id) FROM effects").Scan(&effects, &orders,
		&highest)
	if err != nil || effects != f.n || orders != f.n || highest != f.n-1 {
		f.Errorf("%d effects of %d orders, the last %d, %v; want one of each of %d", effects, orders, highest, err, f.n)
	}
}

// lags returns the sorted times from saving the messages to their effects.
func (f *flood) lags() (all []time.Duration) {
	f.Helper()
	at := map[int64]int64{}
	f.each(f.effects, "SELECT id, at FROM effects", func(id, effect int64) { at[id] = effect })
	saved := "SELECT CAST(CAST(body AS TEXT) AS BIGINT), saved_at FROM outbox"
	switch f.dialect {
	case outbox.PostgreSQL:
		saved = "SELECT convert_from(body, 'UTF8')::bigint, saved_at FROM outbox"
	case outbox.MySQL:
		saved = "SELECT CAST(body AS SIGNED), saved_at FROM outbox"
	}
	f.each(f.db, saved, func(id, saved int64) {
		all = append(all, time.Duration(at[id]-saved)*time.Microsecond)
	})
	slices.Sort(all)
	return all
}

func (f *flood) each(db *sql.DB, query string, do func(a, b int64)) {
	f.Helper()
	rows, err := db.Query(query)
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var a, b int64
		if err := rows.Scan(&a, &b); err != nil {
			f.Fatal(err)
		}
		do(a, b)
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
}

// saveOrders saves the missing orders, each with its message; some are rolled back and saved again.
func saveOrders(d database) error {
	db, err := d.open()
	if err != nil {
		return err
	}
	box, err := outbox.New(db, d.dialect, outbox.Options{})
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv(countEnv))
	if err != nil {
		return err
	}
	var first int // the first missing order
	err = db.QueryRow(`SELECT min(o.id + 1) FROM (SELECT id FROM orders UNION ALL SELECT -1) AS o
		WHERE NOT EXISTS (SELECT 1 FROM orders AS next WHERE next.id = o.id + 1)`).Scan(&first)
	if err != nil {
		return err
	}
	err = together(savers, n-first, func(i int) error {
		for {
			if err := saveOrder(db, box, first+i); !errors.Is(err, errChangedMind) {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Hour) // until it is killed; select {} would count as a deadlock, and end it
	return nil
}

var errChangedMind = errors.New("rolled back on purpose")

func saveOrder(db *sql.DB, box *outbox.Outbox, id int) error {
	ctx := context.Background()
	var there int
	if err := db.QueryRow(fmt.Sprintf("SELECT count(*) FROM orders WHERE id = %d", id)).Scan(&there); err != nil ||
		there > 0 {
		return err
	}
	return inTx(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.Exec(fmt.Sprintf("INSERT INTO orders VALUES (%d)", id)); err != nil {
			return err
		}
		if err := outbox.Save(ctx, box, tx, outbox.Message{Topic: "orders", Body: fmt.Append(nil, id)}); err != nil {
			return err
		}
		if rand.IntN(20) == 0 {
			return errChangedMind
		}
		return nil
	})
}

// relayOrders sends webhooks until it is killed.
func relayOrders(d database) error {
	box, err := d.openBox()
	if err != nil {
		return err
	}
	secrets, err := webhook.ParseSecrets(floodSecret)
	if err != nil {
		return err
	}
	sink := webhook.NewSink(webhook.To(os.Getenv(receiverEnv), secrets), webhook.SinkOptions{
		AllowHTTP: true, AllowPrivate: true, Concurrency: 16,
	})
	return outbox.NewRelay(box, sink, outbox.RelayOptions{
		Lease: 2 * time.Second, Idle: 20 * time.Millisecond, FirstDelay: 50 * time.Millisecond,
		MaxDelay: 500 * time.Millisecond,
		MaxTries: 1000, PassDead: true,
	}).Run(context.Background())
}

// serve serves on the listener that the parent has passed on.
func serve(h http.Handler) error {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return (&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

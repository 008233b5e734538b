package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// A hundred messages that are saved in one transaction and relayed from a SQLite file to a sink that takes them all, in
// plaintext and encrypted, in turns, so that a busy machine slows both. The metric x is how much longer the encrypted ones
// took, and ns-more is that for one message.
func BenchmarkEncryptedAgainstPlain(b *testing.B) {
	const each = 100
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size, " bytes"), func(b *testing.B) {
			db, err := sql.Open("sqlite", "file:"+b.TempDir()+
				"/shop.db?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)&_txlock=immediate")
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			var boxes []*outbox.Outbox
			for i, keys := range []outbox.AEAD{nil, cryptstore.NewKeyring(newKeyset(b))} {
				o := outbox.Options{Table: fmt.Sprint("box_", i), Keys: keys}
				if keys != nil {
					o.Secret = boxSecret
				}
				box, err := outbox.New(db, outbox.SQLite, o)
				if err == nil {
					_, err = box.Migrate(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
				boxes = append(boxes, box)
			}
			var took [2]time.Duration
			body := make([]byte, size)
			b.ResetTimer()
			for range b.N {
				for i, box := range boxes {
					began := time.Now()
					saveAndSend(b, db, box, each, body)
					took[i] += time.Since(began)
					if _, err := db.Exec(fmt.Sprint("DELETE FROM box_", i)); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "x")
			b.ReportMetric(float64(took[1]-took[0])/float64(b.N*each), "ns-more/message")
			b.ReportMetric(float64(took[0])/float64(b.N*each), "ns-plain/message")
		})
	}
}

func saveAndSend(b *testing.B, db *sql.DB, box *outbox.Outbox, n int, body []byte) {
	header := map[string]string{"Content-Type": "application/json"}
	err := inTx(b.Context(), db, func(tx *sql.Tx) error {
		for range n {
			if err := outbox.Save(b.Context(), box, tx, outbox.Message{Topic: "paid", Header: header, Body: body}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sent := 0
	sink := outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error {
		for _, d := range batch {
			if len(d.Body) != len(body) || len(d.Header) != 1 {
				b.Errorf("got %d bytes, %v", len(d.Body), d.Unreadable)
			}
		}
		if sent += len(batch); sent == n {
			cancel()
		}
		return make([]error, len(batch))
	})
	_ = outbox.NewRelay(box, sink, outbox.RelayOptions{}).Run(ctx) // ends with ctx
}

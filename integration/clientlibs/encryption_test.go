package clientlibs

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

func TestPythonEncryption(t *testing.T) {
	t.Parallel()
	exchange(t, func(direct, bouncer string) { pythonTestsOn(t, direct, bouncer, 0, "tests.test_encryption") })
}

func TestNodeEncryption(t *testing.T) {
	t.Parallel()
	exchange(t, func(direct, bouncer string) {
		nodeTestsOn(t, nodeFolder(t), direct, bouncer, 0, "test/encryption.test.js")
	})
}

// exchange writes an answer that the service reads, and reads what the service has written, with a Store that refuses
// plaintext.
func exchange(t *testing.T, service func(direct, bouncer string)) {
	t.Helper()
	text, err := os.ReadFile("../../clients/testdata/sealed.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct{ Keyset json.RawMessage }
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	keyset, err := cryptstore.ParseKeyset(table.Keyset)
	if err != nil {
		t.Fatal(err)
	}
	direct, bouncer := newDatabase(t)
	pool, err := pgxpool.New(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	inner, err := pgstore.New(t.Context(), pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	store := cryptstore.New(inner, cryptstore.NewKeyring(keyset), cryptstore.Options{})
	claim := func(id string) retrysafe.Claim {
		c, err := store.Claim(t.Context(), retrysafe.ClaimParams{
			Key: retrysafe.Key{Scope: "languages", ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
			Keep: retrysafe.Retention{Replay: time.Hour, Key: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	answer := httpsafe.NewResult(201, http.Header{"Content-Type": {"text/plain"}, "Location": {"/go"}}, []byte("from Go"))
	if err := store.Complete(t.Context(), claim("go").Lease, answer, retrysafe.Retention{Replay: time.Hour, Key: time.Hour}); err != nil {
		t.Fatal(err)
	}
	service(direct, bouncer)
	c := claim("service")
	header, _ := httpsafe.HeaderOf(c.Record.Result)
	if c.Verdict != retrysafe.Done || string(c.Record.Result.Body) != "from a service" || c.Record.Result.Code != 202 ||
		header.Get("Content-Type") != "text/plain" || header.Get("Location") != "/service" {
		t.Errorf("the service's answer: %v, %q, %v", c.Verdict, c.Record.Result.Body, header)
	}
	records, err := store.(retrysafe.Inspector).Inspect(t.Context(), c.Record.Key.Digest())
	if err != nil || len(records) != 1 {
		t.Errorf("Inspect: %v, %v", records, err)
	}
}

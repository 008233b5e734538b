package cryptstore_test

import (
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// newKeyset returns a keyset with one key.
func newKeyset(t testing.TB) *cryptstore.Keyset {
	t.Helper()
	keyset, err := cryptstore.NewKeyset()
	if err != nil {
		t.Fatal(err)
	}
	return keyset
}

// encrypt returns inner, encrypted with a keyset of its own.
func encrypt(t testing.TB, inner retrysafe.Store) retrysafe.Store {
	t.Helper()
	return cryptstore.New(inner, cryptstore.NewKeyring(newKeyset(t)), cryptstore.Options{})
}

// The whole contract, around a store in memory.
func TestContractAroundMemory(t *testing.T) {
	var passed atomic.Int64
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store {
			return encrypt(t, memstore.New(memstore.Options{Clock: clock}))
		},
		Age:   func(_ *testing.T, _ retrysafe.Store, d time.Duration) { passed.Add(int64(d)) },
		Walks: 5,
	})
}

func TestFullStoreServesWhatItHasAccepted(t *testing.T) {
	storetest.RunFull(t, storetest.Harness{Open: func(t *testing.T) retrysafe.Store {
		return encrypt(t, memstore.New(memstore.Options{MaxKeys: 5}))
	}}, nil)
}

// file is an encrypted store in a file, what it takes to open the file again, and the time that has passed in it.
type file struct {
	path   string
	keys   *cryptstore.Keyring
	passed *atomic.Int64 // microseconds
	inner  *sqlitestore.Store
}

func (f *file) open(t testing.TB) retrysafe.Store {
	t.Helper()
	var err error
	if f.inner, err = sqlitestore.Open(f.path, agedBy(f.passed)); err != nil {
		t.Fatal(err)
	}
	inner := f.inner
	t.Cleanup(func() { inner.Close() })
	return cryptstore.New(inner, f.keys, cryptstore.Options{})
}

// agedBy returns options with which time passes in a file as a test says. The field belongs to the tests of
// sqlitestore, and no program can set it.
func agedBy(passed *atomic.Int64) (o sqlitestore.Options) {
	field := reflect.ValueOf(&o).Elem().FieldByName("aged")
	*(**atomic.Int64)(unsafe.Pointer(field.UnsafeAddr())) = passed
	return o
}

// The whole contract, around a file, which is closed and opened again.
func TestContractAroundAFile(t *testing.T) {
	files := map[retrysafe.Store]*file{}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store {
			f := &file{
				path: filepath.Join(t.TempDir(), "store.db"), keys: cryptstore.NewKeyring(newKeyset(t)),
				passed: new(atomic.Int64),
			}
			s := f.open(t)
			files[s] = f
			return s
		},
		Age: func(_ *testing.T, s retrysafe.Store, d time.Duration) { files[s].passed.Add(d.Microseconds()) },
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			f := files[s]
			if err := f.inner.Close(); err != nil {
				t.Fatal(err)
			}
			again := f.open(t)
			files[again] = f
			return again
		},
		Walks: 2,
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/procfs"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// The second part of goal 19: what a completed key takes of each store, without its answer.

// measureKeys reports the bytes that each store keeps of a key, and those that it has written to its log for it.
func measureKeys(ctx context.Context, r *run) error {
	records := int64(200_000)
	if r.Quick {
		records = 50_000
	}
	var errs []error
	for _, kind := range []string{"memstore", "sqlitestore", "pgstore", "mysqlstore", "redisstore"} {
		r.progress("%s: fill %s records", kind, figure.Short(float64(records)))
		kept, written, err := measureKey(ctx, r, kind, records)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
			continue
		}
		answer := peers.Result()
		size := float64(len(answer.Meta) + len(answer.Body))
		perKey := kept/float64(records) - size
		r.add(ctx, figure.New(kind+": kept of a key, without its answer", "B", perKey).
			Note("1 key/s for 24 h: %.0f MiB, and the answers", perKey*86400/mib).
			Note("%s records with answers of %.0f B, which are taken out", figure.Short(float64(records)), size).
			Note("written for a key, with its answer: %.0f B", written/float64(records)))
	}
	return errors.Join(errs...)
}

// measureKey fills a new store, and returns the bytes that it then keeps and those that it has written to its log.
func measureKey(ctx context.Context, r *run, kind string, records int64) (kept, written float64, err error) {
	w, err := newFilledStore(ctx, r, kind)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	keptBefore, writtenBefore, err := w.read(ctx)
	if err != nil {
		return 0, 0, err
	}
	found, err := call[filled](ctx, place{}, keeping{At: w.at, Records: records})
	if err != nil {
		return 0, 0, err
	}
	kept, written, err = w.read(ctx)
	return kept - keptBefore + found.Heap, written - writtenBefore + found.Written, err
}

// filledStore is a store that is filled: where it is, and what it keeps and has written.
type filledStore struct {
	at   storeAt
	read func(context.Context) (kept, written float64, err error)
	stop func() error
}

func newFilledStore(ctx context.Context, r *run, kind string) (filledStore, error) {
	w := filledStore{
		at:   storeAt{Kind: kind},
		read: func(context.Context) (float64, float64, error) { return 0, 0, nil },
		stop: func() error { return nil },
	}
	switch kind {
	case "sqlitestore":
		dir, err := os.MkdirTemp(r.dir, "weighed")
		w.at.Address, w.stop = filepath.Join(dir, "keys.db"), func() error { return os.RemoveAll(dir) }
		w.read = func(context.Context) (float64, float64, error) {
			kept, err := folderBytes(dir)
			return kept, 0, err
		}
		return w, err
	case "pgstore":
		s, err := startPostgres(ctx, r)
		if err != nil {
			return w, err
		}
		w.stop = s.close
		place, err := s.store(ctx, "weighed")
		if err != nil {
			return w, errors.Join(err, s.close())
		}
		w.at.Address, w.at.Schema = place.URL, place.Schema
		w.read = func(ctx context.Context) (kept, written float64, err error) {
			c, err := readPostgres(ctx, s.pool, s.PID())
			if err == nil {
				err = s.pool.QueryRow(ctx, "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class "+
					"WHERE relnamespace = 'weighed'::regnamespace AND relkind = 'r'").Scan(&kept)
			}
			return kept, float64(c.log), err
		}
	case "mysqlstore":
		s, err := startMariaDB(ctx, r)
		if err != nil {
			return w, err
		}
		w.stop = s.close
		if w.at.Address, err = s.fresh(ctx, "weighed"); err != nil {
			return w, errors.Join(err, s.close())
		}
		w.read = func(ctx context.Context) (kept, written float64, err error) {
			log, err := mysqlStatus(ctx, s.db, "Innodb_lsn_current")
			if err != nil {
				return 0, 0, err
			}
			kept, err = folderBytes(filepath.Join(s.data, "data", "weighed"))
			return kept, float64(log), err
		}
	case "redisstore":
		s, err := startRedis("everysec")
		if err != nil {
			return w, err
		}
		w.at.Address, w.stop = s.Address(), s.Close
		w.read = func(ctx context.Context) (kept, written float64, err error) {
			_, client, err := openRedis(ctx, s.Address())
			if err != nil {
				return 0, 0, err
			}
			defer client.Close()
			memory, err := infoNumber(ctx, client, "memory", "used_memory")
			if err != nil {
				return 0, 0, err
			}
			log, err := infoNumber(ctx, client, "persistence", "aof_current_size")
			return float64(memory), float64(log), err
		}
	}
	return w, nil
}

// folderBytes returns the sum of the sizes of the files in a folder.
func folderBytes(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	})
	return sum, err
}

// keeping completes so many fresh keys of a store, which keeps them for a day.
type keeping struct {
	At      storeAt
	Records int64
}

// filled holds the bytes that the process keeps in its own heap, and that it has written to its own files.
type filled struct{ Heap, Written float64 }

func (in keeping) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	store, end, err := in.At.open(ctx)
	if err != nil {
		return nil, err
	}
	day := retrysafe.Retention{Replay: 24 * time.Hour, Key: 24 * time.Hour, Audit: 24 * time.Hour}
	result, before := peers.Result(), heapBytes()
	if err := forEach(ctx, fillers, 0, in.Records, func(ctx context.Context, _ int64) error {
		p := freshParams()
		p.Keep = day
		return makePair(ctx, store, p, result, day)
	}); err != nil {
		return nil, errors.Join(err, end())
	}
	var found filled
	if in.At.Kind == "memstore" {
		found.Heap = heapBytes() - before
		runtime.KeepAlive(store) // nothing else refers to it
	}
	if err := end(); err != nil { // checkpoints a file
		return nil, err
	}
	if in.At.Kind == "sqlitestore" {
		self, err := procfs.Self()
		if err != nil {
			return nil, err
		}
		io, err := self.IO()
		if err != nil {
			return nil, err
		}
		found.Written = float64(io.WChar)
	}
	return found, nil
}

// heapBytes returns the live bytes of the heap.
func heapBytes() float64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

package outboxcmd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// Database is that of a store. It may have outboxes.
type Database struct {
	store store.Ref
	db    database
	keys  *cryptstore.Keyring // nil: encrypted messages are not shown
}

// Box is an outbox, and its name for people.
type Box struct {
	*outbox.Outbox
	Name string
	// IsInbox says that its messages are requests which a proxy has accepted.
	IsInbox bool
}

// OpenDatabase opens the database of a store. It returns nil if no outbox can be there, because the store is in memory,
// on a server without SQL, or in several places. It connects when it is used. keys decrypt messages; nil: there are none.
func OpenDatabase(ctx context.Context, ref store.Ref, keys *cryptstore.Keyring) (*Database, error) {
	if ref.Memory || ref.Place != nil && ref.Postgres == nil && ref.MySQL == nil {
		return nil, nil
	}
	db, err := openDB(ctx, ref)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxConnections)
	return &Database{ref, db, keys}, nil
}

// OpenInbox opens the outbox of the accepted requests for a command, which does not make its table. keys decrypt requests;
// nil: there are none. It returns what closes it, and what explains its errors.
func OpenInbox(
	ctx context.Context, ref store.Ref, keys *cryptstore.Keyring,
) (box *outbox.Outbox, closeBox func(), explained func(error) error, err error) {
	d, err := OpenDatabase(ctx, ref, keys)
	if err == nil && d == nil {
		err = cli.Refusef("store %s: an inbox is in a store on PostgreSQL, MySQL, MariaDB or SQLite", ref.Name)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if box, err = d.inbox(nil, false); err != nil {
		d.Close()
		return nil, nil, nil, err
	}
	return box, d.Close, func(err error) error {
		if lacksTable(err) {
			return fmt.Errorf("store %s has no inbox: a proxy makes it when it starts with accept: inbox", ref.Name)
		}
		return explain(ref, err)
	}, nil
}

// InboxTable is the name of the table in which the proxy keeps accepted requests.
const InboxTable = "retrysafe_inbox"

// Inbox returns the outbox of the accepted requests, and makes its table if it is not there. For the service that
// accepts them more connections are opened than for a page. If the database has keys, requests are encrypted unless
// decryptOnly is set, and secret is that of the outbox. A nil Database has none.
func (d *Database) Inbox(ctx context.Context, secret []byte, decryptOnly bool) (*outbox.Outbox, error) {
	if d == nil {
		return nil, errors.New("the store has no database for an inbox")
	}
	d.db.SetMaxOpenConns(inboxConnections)
	box, err := d.inbox(secret, decryptOnly)
	if err != nil {
		return nil, err
	}
	if _, err := box.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("the table of the inbox: %w; if this role may not make or use it, make it as its owner with "+
			"retrysafe outbox migrate --table %s --store …, and grant the rights that docs/inbox.md names", explain(d.store, err), InboxTable)
	}
	return box, nil
}

func (d *Database) inbox(secret []byte, decryptOnly bool) (*outbox.Outbox, error) {
	o := outbox.Options{Table: InboxTable, Secret: secret, DecryptOnly: decryptOnly}
	if d.keys != nil {
		o.Keys = d.keys
	}
	if p := d.store.Postgres; p != nil {
		o.Schema = p.Param("schema")
	}
	return outbox.New(d.db.DB, dialectOf(d.store), o)
}

// inboxConnections is how many connections a proxy uses for its inbox: one saves, and each route takes and settles.
const inboxConnections = 8

// maxConnections is how many connections a Database has at most. Pages for operators need no more, and the server has
// others to serve.
const maxConnections = 2

// Close closes the database. A nil Database has nothing to close.
func (d *Database) Close() {
	if d != nil {
		d.db.close()
	}
}

// Find returns the outboxes that this user may read. A nil Database has none.
func (d *Database) Find(ctx context.Context) (all []Box, err error) {
	if d == nil {
		return nil, nil
	}
	found, err := outbox.Find(ctx, d.db.DB, dialectOf(d.store))
	if err != nil {
		return nil, explain(d.store, err)
	}
	for _, o := range found {
		if d.keys != nil {
			o.Keys = d.keys
		}
		box, err := outbox.New(d.db.DB, dialectOf(d.store), o)
		if err != nil {
			return nil, err
		}
		all = append(all, Box{box, nameOf(o), o.Table == InboxTable})
	}
	return all, nil
}

func nameOf(o outbox.Options) string {
	if o.Schema != "" {
		return o.Schema + "." + o.Table
	}
	return o.Table
}

func dialectOf(ref store.Ref) outbox.Dialect {
	switch {
	case ref.Postgres != nil:
		return outbox.PostgreSQL
	case ref.MySQL != nil:
		return outbox.MySQL
	}
	return outbox.SQLite
}

// database is a pool, and what closes it.
type database struct {
	*sql.DB
	close func()
}

func openDB(ctx context.Context, ref store.Ref) (database, error) {
	if p := ref.Postgres; p != nil {
		pool, err := p.Connect(ctx)
		if err != nil {
			return database{}, err
		}
		db := stdlib.OpenDBFromPool(pool)
		return database{db, func() {
			_ = db.Close() // nothing is left to be written
			pool.Close()
		}}, nil
	}
	if m := ref.MySQL; m != nil {
		db, err := m.Connect()
		return database{db, func() { _ = db.Close() }}, err
	}
	if _, err := os.Stat(ref.Path); errors.Is(err, fs.ErrNotExist) {
		return database{}, cli.Refusef("store %s: there is no such file; an outbox is in the database that your "+
			"program writes to", ref.Path)
	}
	path, err := filepath.Abs(ref.Path)
	if err != nil {
		return database{}, err
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return database{}, fmt.Errorf("store %s: %w", ref.Name, err)
	}
	return database{db, func() { _ = db.Close() }}, nil
}

// explain says what to do about an error of the database.
func explain(ref store.Ref, err error) error {
	switch {
	case ref.Postgres != nil:
		return ref.Postgres.Explain(err)
	case ref.MySQL != nil:
		return ref.MySQL.Explain(err)
	}
	return fmt.Errorf("store %s: %w", ref.Name, err)
}

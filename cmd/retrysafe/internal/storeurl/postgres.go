package storeurl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

const (
	// connectPatience is how many seconds a server may take to accept a connection, unless the URL has connect_timeout.
	connectPatience = "5"
	// defaultConnections is how many connections claims and completions use at once, unless the URL has connections.
	defaultConnections = 2
	// spareConnections are left for sweeping and looking while all of these are busy, unless the URL has pool_max_conns.
	spareConnections = 4
	defaultSchema    = "retrysafe"
)

// Postgres is a schema in a PostgreSQL database.
type Postgres struct {
	Name        string // the URL, without passwords
	URL         string // as it was given
	Schema      string
	pool        *pgxpool.Config
	listen      *pgx.ConnConfig // nil: as the pool does
	connections int
}

// parsePostgres reads a URL. The parameters schema, connections and notify are ours; pgx gets the others.
func parsePostgres(text string) (*Postgres, error) {
	front, query, _ := strings.Cut(text, "?")
	params, err := url.ParseQuery(query)
	if err != nil || !isClear(front) || !isClearQuery(query) {
		return nil, cli.Refusef("the store's URL cannot be read: write "+
			"postgres://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&… "+
			"with %%40, %%2F, %%3A, %%3F, %%23 for the characters @/:?# in the password, or put it into PGPASSWORD; "+
			"there is: %s",
			strings.SplitAfter(text, ":")[0]+"…")
	}
	p := &Postgres{
		Name: hidePassword(text), URL: text, Schema: cmp.Or(params.Get("schema"), defaultSchema),
		connections: defaultConnections,
	}
	if connections := params.Get("connections"); connections != "" {
		if p.connections, err = strconv.Atoi(connections); err != nil || p.connections < 1 || p.connections > 1000 {
			return nil, cli.Refusef("store %s: connections=%s is no number from 1 to 1000", p.Name, connections)
		}
	}
	if _, err := pgstore.Migrations(p.Schema); err != nil {
		return nil, cli.Refusef("store %s: %w", p.Name, err)
	}
	if direct := params.Get("notify"); direct != "" {
		if p.listen, err = parseNotify(direct); err != nil {
			return nil, cli.Refusef("store %s: %w", p.Name, err)
		}
	}
	for _, ours := range []string{"schema", "connections", "notify"} {
		params.Del(ours)
	}
	if !params.Has("pool_max_conns") {
		params.Set("pool_max_conns", strconv.Itoa(p.connections+spareConnections))
	}
	fillIn(params)
	if p.pool, err = pgxpool.ParseConfig(front + "?" + params.Encode()); err != nil {
		return nil, cli.Refusef("store %s: %s", p.Name, parseProblem(err))
	}
	if p.listen != nil && p.listen.Password == "" && p.listen.User == p.pool.ConnConfig.User {
		p.listen.Password = p.pool.ConnConfig.Password
	}
	return p, nil
}

// parseNotify reads the URL of the connection that listens.
func parseNotify(text string) (*pgx.ConnConfig, error) {
	front, query, _ := strings.Cut(text, "?")
	params, err := url.ParseQuery(query)
	if err != nil || !isPostgres(front) || !isClear(front) || !isClearQuery(query) {
		return nil, fmt.Errorf("notify=%s… is not the URL of a direct connection to the same database, as in "+
			"notify=postgres://USER@HOST/DATABASE", strings.SplitAfter(text, ":")[0])
	}
	fillIn(params)
	config, err := pgx.ParseConfig(front + "?" + params.Encode())
	if err != nil {
		return nil, fmt.Errorf("notify: %s", parseProblem(err))
	}
	return config, nil
}

// fillIn adds what neither the URL nor the environment sets.
func fillIn(params url.Values) {
	for _, p := range []struct{ name, variable, value string }{
		{"application_name", "PGAPPNAME", "retrysafe"},
		{"connect_timeout", "PGCONNECT_TIMEOUT", connectPatience},
	} {
		if !params.Has(p.name) && os.Getenv(p.variable) == "" {
			params.Set(p.name, p.value)
		}
	}
}

// WithSchema returns the same database with another schema.
func (p *Postgres) WithSchema(schema string) (*Postgres, error) {
	front, query, _ := strings.Cut(p.URL, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	params.Set("schema", schema)
	return parsePostgres(front + "?" + params.Encode())
}

// Connect returns a pool. It connects when it is used.
func (p *Postgres) Connect(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, p.pool.Copy())
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", p.Name, err)
	}
	return pool, nil
}

// Open opens the store, and returns what closes it.
func (p *Postgres) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	pool, err := p.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := pgstore.New(ctx, pool, pgstore.Options{Schema: p.Schema, Connections: p.connections, Listen: p.listen})
	if err != nil {
		pool.Close()
		return nil, nil, p.Explain(err)
	}
	return s, func() error {
		err := s.Close()
		pool.Close()
		return err
	}, nil
}

// dropPatience is how long dropping a schema may take.
const dropPatience = 20 * time.Second

// Drop drops the schema and everything in it.
func (p *Postgres) Drop() error {
	ctx, stop := context.WithTimeout(context.Background(), dropPatience)
	defer stop()
	conn, err := pgx.ConnectConfig(ctx, p.pool.ConnConfig)
	if err == nil {
		_, err = conn.Exec(ctx, "DROP SCHEMA "+p.Schema+" CASCADE", pgx.QueryExecModeSimpleProtocol)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("drop schema %s: %w; do it by hand", p.Schema, err)
	}
	return nil
}

// Param returns a parameter of the URL; empty if it has none of that name.
func (p *Postgres) Param(param string) string {
	_, query, _ := strings.Cut(p.URL, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	return params.Get(param)
}

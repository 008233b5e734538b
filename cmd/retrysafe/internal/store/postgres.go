package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
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
	// readOnlyTransaction is the SQLSTATE of a server that takes no writes, such as a standby after a failover. A
	// connection that has got it is not used again.
	readOnlyTransaction = "25006"
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
	u, err := readURL(text, "postgres://USER:PASSWORD@HOST:PORT/DATABASE", ", or put it into PGPASSWORD")
	if err != nil {
		return nil, err
	}
	p := &Postgres{Name: u.name, URL: text, Schema: u.take("schema", defaultSchema)}
	if p.connections, err = u.takeNumber("connections", defaultConnections, 1, 1000); err != nil {
		return nil, err
	}
	if _, err := pgstore.Migrations(p.Schema); err != nil {
		return nil, u.refusef("%w", err)
	}
	if direct := u.take("notify", ""); direct != "" {
		if p.listen, err = parseNotify(direct); err != nil {
			return nil, u.refusef("%w", err)
		}
	}
	if !u.params.Has("pool_max_conns") {
		u.params.Set("pool_max_conns", strconv.Itoa(p.connections+spareConnections))
	}
	fillIn(u.params)
	if p.pool, err = pgxpool.ParseConfig(u.front + "?" + encodeQuery(u.params)); err != nil {
		return nil, u.refusef("%s", parseProblem(err))
	}
	onError := p.pool.ConnConfig.OnPgError
	p.pool.ConnConfig.OnPgError = func(c *pgconn.PgConn, err *pgconn.PgError) (keep bool) {
		return err.Code != readOnlyTransaction && onError(c, err)
	}
	if p.listen != nil && p.listen.Password == "" && p.listen.User == p.pool.ConnConfig.User {
		p.listen.Password = p.pool.ConnConfig.Password
	}
	return p, nil
}

// parseNotify reads the URL of the connection that listens.
func parseNotify(text string) (*pgx.ConnConfig, error) {
	front, query, _ := strings.Cut(text, "?")
	params, err := parseQuery(query)
	if err != nil || !isPostgres(front) || !isClear(front) || !isClearQuery(query) {
		return nil, fmt.Errorf("notify=%s… is not the URL of a direct connection to the same database, as in "+
			"notify=postgres://USER@HOST/DATABASE", strings.SplitAfter(text, ":")[0])
	}
	fillIn(params)
	config, err := pgx.ParseConfig(front + "?" + encodeQuery(params))
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
	return parsePostgres(withParam(p.URL, "schema", schema))
}

func (p *Postgres) ref() Ref { return Ref{Name: p.Name, URL: p.URL, Place: p, Postgres: p} }

// Beside implements Place: the name is that of a schema.
func (p *Postgres) Beside(name string) (Ref, error) {
	p, err := p.WithSchema(name)
	if err != nil {
		return Ref{}, err
	}
	return p.ref(), nil
}

// Prepare implements Place: it creates the schema, or updates it.
func (p *Postgres) Prepare(ctx context.Context) (made []string, err error) {
	return p.Migrate(ctx, Roles{})
}

// Connect returns a pool. It connects when it is used.
func (p *Postgres) Connect(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, p.pool.Copy())
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", p.Name, err)
	}
	return pool, nil
}

// Open implements Place.
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

// Drop implements Place.
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
	params, err := parseQuery(query)
	if err != nil {
		return ""
	}
	return params.Get(param)
}

// DriverURL returns the URL for the driver of another language: without the parameters that are ours or pgx's, which
// such a driver refuses.
func (p *Postgres) DriverURL() string {
	front, query, _ := strings.Cut(p.URL, "?")
	params, _ := parseQuery(query) // parsePostgres has read it
	for param := range params {
		switch param {
		case "schema", "connections", "notify", "default_query_exec_mode", "statement_cache_capacity",
			"description_cache_capacity":
			params.Del(param)
		default:
			if strings.HasPrefix(param, "pool_") {
				params.Del(param)
			}
		}
	}
	return strings.TrimSuffix(front+"?"+encodeQuery(params), "?")
}

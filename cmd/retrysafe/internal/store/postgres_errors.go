package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// Explain says what to do about an error of the database.
func (p *Postgres) Explain(err error) error {
	var server *pgconn.PgError
	switch connect := new(pgconn.ConnectError); {
	case errors.Is(err, pgstore.ErrNoSchema):
		return fmt.Errorf("store %s: schema %q is missing or older than this program needs; run as the owner of the "+
			"schema: %s (without --role, if %s is the owner)", p.Name, p.Schema, p.migration(), p.pool.ConnConfig.User)
	case errors.Is(err, pgstore.ErrNewerSchema):
		return fmt.Errorf("store %s: schema %q was migrated by a newer retrysafe; use that version here too", p.Name,
			p.Schema)
	case errors.As(err, &connect):
		return &reworded{fmt.Sprintf("store %s: cannot connect: %s", p.Name, p.connectProblem(err)), err}
	case errors.As(err, &server) && server.Code == insufficientRights:
		return fmt.Errorf("store %s: %w. If %s is the role of a proxy, let the owner of the schema run: %s (it can read all "+
			"answers then). If it is the role of a service, name the proxy's role in the URL instead", p.Name, err,
			p.pool.ConnConfig.User, p.migration())
	}
	return fmt.Errorf("store %s: %w", p.Name, err)
}

// migration is what the owner of the schema runs for the role in the URL. It has URL in place of that one, whose role
// may not migrate.
func (p *Postgres) migration() string {
	schema := ""
	if p.Schema != defaultSchema {
		schema = " --schema " + p.Schema
	}
	return "retrysafe migrate up --store URL" + schema + " --role " + p.pool.ConnConfig.User
}

// reworded is an error with another text.
type reworded struct {
	text  string
	cause error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.cause }

// SQLSTATEs of refused connections.
const (
	invalidPassword     = "28P01"
	invalidRole         = "28000"
	unknownDatabase     = "3D000"
	tooManyConnections  = "53300"
	insufficientRights  = "42501"
	protocolViolation   = "08P01" // how PgBouncer refuses
	cannotConnectNow    = "57P03"
	featureNotSupported = "0A000"
)

// connectProblem returns why there is no connection, and what to check.
func (p *Postgres) connectProblem(err error) string {
	config := p.pool.ConnConfig
	at := addresses(&config.Config)
	var (
		server *pgconn.PgError
		lookup *net.DNSError
	)
	switch {
	case errors.As(err, &server):
		return fmt.Sprintf("%s answers: %s (SQLSTATE %s); %s", at, server.Message, server.Code, p.remedy(server.Code))
	case errors.As(err, &lookup):
		return fmt.Sprintf("host %s not found; check the name in the URL", lookup.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no server listens at %s; check that it runs, and its port", at)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("%s does not answer within %v; check the address and firewalls", at, config.ConnectTimeout)
	}
	connect := new(pgconn.ConnectError)
	errors.As(err, &connect)
	return fmt.Sprintf("%s: %v; check the address, and sslmode if the server requires TLS or does not support it", at,
		connect.Unwrap())
}

// addresses of the servers, each once.
func addresses(config *pgconn.Config) string {
	all := []string{net.JoinHostPort(config.Host, fmt.Sprint(config.Port))}
	for _, f := range config.Fallbacks {
		if at := net.JoinHostPort(f.Host, fmt.Sprint(f.Port)); !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return strings.Join(all, ", ")
}

func (p *Postgres) remedy(state string) string {
	config := p.pool.ConnConfig
	switch state {
	case invalidPassword:
		return fmt.Sprintf("check the password of %s: in the URL, in PGPASSWORD or in ~/.pgpass", config.User)
	case invalidRole:
		return fmt.Sprintf("check the user %s, and the server's pg_hba.conf", config.User)
	case unknownDatabase:
		return fmt.Sprintf("check the name, or create it: createdb %s", config.Database)
	case tooManyConnections:
		return "lower pool_max_conns in the URL, or raise the server's max_connections"
	case insufficientRights:
		return fmt.Sprintf("let %s use the database: GRANT CONNECT ON DATABASE", config.User)
	case cannotConnectNow:
		return "the server is starting or stopping: try again"
	case protocolViolation, featureNotSupported:
		return "if this is PgBouncer, check that it has the database and the user, and ignore_startup_parameters"
	}
	return "see the server's log"
}

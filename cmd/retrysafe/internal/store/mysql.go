package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
)

// MySQL is a database of MySQL or MariaDB.
type MySQL struct {
	Name        string // the URL, without passwords
	text        string
	config      *mysql.Config
	connections int
}

// parseMySQL reads a URL. The parameter connections is ours; the driver gets the others.
func parseMySQL(text string) (Ref, error) {
	u, err := readURL(text, "mysql://USER:PASSWORD@HOST:PORT/DATABASE", "")
	if err != nil {
		return Ref{}, err
	}
	parsed, err := url.Parse(u.front)
	if err != nil {
		return Ref{}, u.refusef("the URL cannot be read")
	}
	database := strings.TrimPrefix(parsed.Path, "/")
	if parsed.Host == "" || database == "" || strings.Contains(database, "/") {
		return Ref{}, u.refusef("name a host and a database: mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	m := &MySQL{Name: u.name, text: text}
	if m.connections, err = u.takeNumber("connections", defaultConnections, 1, 1000); err != nil {
		return Ref{}, err
	}
	if !u.params.Has("timeout") {
		u.params.Set("timeout", connectTimeout.String())
	}
	if m.config, err = mysql.ParseDSN("/?" + u.params.Encode()); err != nil {
		return Ref{}, u.refusef("%s", strings.TrimPrefix(err.Error(), "invalid DSN: "))
	}
	m.config.Net, m.config.DBName = "tcp", database
	m.config.Addr = net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "3306"))
	m.config.User = parsed.User.Username()
	m.config.Passwd, _ = parsed.User.Password()
	m.config.RejectReadOnly = true // after a failover the old primary is read-only
	return Ref{Name: m.Name, URL: text, Place: m, MySQL: m}, nil
}

// Connect returns a pool. It connects when it is used.
func (m *MySQL) Connect() (*sql.DB, error) {
	connector, err := mysql.NewConnector(m.config)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", m.Name, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(m.connections + spareConnections)
	return db, nil
}

// Open implements Place.
func (m *MySQL) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	db, err := m.Connect()
	if err != nil {
		return nil, nil, err
	}
	s, err := mysqlstore.New(ctx, db, mysqlstore.Options{Connections: m.connections})
	if err != nil {
		return nil, nil, errors.Join(m.Explain(err), db.Close())
	}
	return s, func() error { return errors.Join(s.Close(), db.Close()) }, nil
}

// Prepare implements Place: it creates the tables, or updates them.
func (m *MySQL) Prepare(ctx context.Context) (made []string, err error) {
	if err := m.create(ctx); err != nil {
		return nil, err
	}
	return m.Migrate(ctx, Roles{})
}

// create makes the database if the server says that it does not exist.
func (m *MySQL) create(ctx context.Context) error {
	db, err := m.Connect()
	if err != nil {
		return err
	}
	err = db.PingContext(ctx)
	if err := db.Close(); err != nil {
		return err
	}
	if server := new(mysql.MySQLError); errors.As(err, &server) && server.Number == noSuchDatabase {
		err = m.inNone(ctx, "CREATE DATABASE IF NOT EXISTS `"+m.config.DBName+"`")
	}
	if err != nil {
		return m.Explain(err)
	}
	return nil
}

// Beside implements Place: the name is that of a database, which Prepare creates.
func (m *MySQL) Beside(name string) (Ref, error) {
	front, query, hasQuery := strings.Cut(m.text, "?")
	front = front[:strings.LastIndex(front, "/")+1] + name
	if hasQuery {
		front += "?" + query
	}
	return parseMySQL(front)
}

// Drop implements Place.
func (m *MySQL) Drop() error {
	ctx, stop := context.WithTimeout(context.Background(), dropPatience)
	defer stop()
	if err := m.inNone(ctx, "DROP DATABASE `"+m.config.DBName+"`"); err != nil {
		return fmt.Errorf("drop database %s: %w; do it by hand", m.config.DBName, err)
	}
	return nil
}

// inNone executes a statement in no database.
func (m *MySQL) inNone(ctx context.Context, statement string) error {
	config := m.config.Clone()
	config.DBName = ""
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// Numbers of errors of the server.
const (
	accessDenied      = 1045
	databaseDenied    = 1044
	tableDenied       = 1142
	columnDenied      = 1143
	procedureDenied   = 1370
	noSuchDatabase    = 1049
	tooManyForAccount = 1203
	tooManyInAll      = 1040
)

// Explain says what to do about an error of the database.
func (m *MySQL) Explain(err error) error {
	var (
		server  *mysql.MySQLError
		network *net.OpError
	)
	switch {
	case errors.Is(err, mysqlstore.ErrNoSchema):
		return fmt.Errorf("store %s: the tables are missing or older than this program needs; run as the owner of the "+
			"schema: %s (without --role, if %s is the owner)", m.Name, m.migration(), m.user())
	case errors.Is(err, mysqlstore.ErrNewerSchema):
		return fmt.Errorf("store %s: the tables were migrated by a newer retrysafe; use that version here too", m.Name)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("store %s: no server answers at %s: %w; check that it runs, and its address", m.Name,
			m.config.Addr, network.Err)
	case errors.As(err, &server) && remedies[server.Number] != "":
		return fmt.Errorf("store %s: %w; %s", m.Name, err, remedies[server.Number])
	case errors.As(err, &server) && slices.Contains(missingRights, server.Number):
		return fmt.Errorf("store %s: %w. Check the name of the database. If %s is the account of a proxy, let the owner of "+
			"the schema run: %s (it can read all answers then). If it is the account of a service, name the proxy's "+
			"account in the URL instead", m.Name, err, m.user(), m.migration())
	}
	return fmt.Errorf("store %s: %w", m.Name, err)
}

// migration is what an account that may change tables runs for the one in the URL, which may not. Only the server knows
// the host of an account.
func (m *MySQL) migration() string {
	return "retrysafe migrate up --store URL --role " + m.user() + "@HOST"
}

func (m *MySQL) user() string { return cmp.Or(m.config.User, "USER") }

// missingRights are the errors of an account that has not been granted what a store needs.
var missingRights = []uint16{databaseDenied, tableDenied, columnDenied, procedureDenied}

// remedies are what to do about errors of connections.
var remedies = map[uint16]string{
	accessDenied:      "check the user and the password",
	noSuchDatabase:    "check the name, or create it: CREATE DATABASE",
	tooManyForAccount: "lower connections in the URL, or raise the account's MAX_USER_CONNECTIONS",
	tooManyInAll:      "lower connections in the URL, or raise the server's max_connections",
}

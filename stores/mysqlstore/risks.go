package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Risks implements [retrysafe.RiskReporter]. It reads the server's variables and the engines of the tables, and, if its
// account may read the tables of accounts, who has more rights than [ServiceGrants]. It does not know whether a server
// with a binary log has replicas.
func (s *Store) Risks(ctx context.Context) (risks []retrysafe.Risk, err error) {
	err = s.read(ctx, func(c *conn) error {
		v, err := s.variables(ctx, c)
		if err != nil {
			return err
		}
		risks = v.risks()
		others, err := s.engines(ctx, c)
		if others != "" {
			risks = append(risks, retrysafe.Risk{
				Setting: "tables with another engine than InnoDB: " + others,
				Loses:   "Their changes are not rolled back, and a crash loses them.",
				Remedy:  "Convert them with ALTER TABLE … ENGINE = InnoDB.",
			})
		}
		if err != nil {
			return err
		}
		wide, err := wideRights(ctx, c, s.options.Database)
		for _, account := range wide {
			risks = append(risks, retrysafe.Risk{
				Setting: "rights of " + account + " to the tables",
				Loses: "The account calls the procedures as a service does, and can read all answers and leases, as after " +
					"GRANT ALL ON " + s.options.Database + ".*.",
				Remedy: "Give Retrysafe a database of its own on this server, or grant the account its own tables one by one.",
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("mysqlstore: read the server's settings: %w", explain(err))
	}
	return risks, nil
}

// variables are what the server says of its settings, by their names.
type variables map[string]string

// settings that risks reads. Not every server has all of them.
const settings = "'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_doublewrite', 'sync_binlog', " +
	"'log_bin', 'binlog_format', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled', " +
	"'rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_wait_point', 'wsrep_on', 'group_replication_group_name'"

func (s *Store) variables(ctx context.Context, c *conn) (variables, error) {
	v := make(variables)
	text := "SHOW GLOBAL VARIABLES WHERE variable_name IN (" + settings + ")"
	selected, err := c.QueryContext(ctx, text)
	err = readRows(selected, err, func(row *sql.Rows) error {
		var name, value string
		err := row.Scan(&name, &value)
		v[strings.ToLower(name)] = value
		return err
	})
	return v, err
}

// is reports whether a variable is there and has one of these values.
func (v variables) is(name string, values ...string) bool {
	for _, value := range values {
		if strings.EqualFold(v[name], value) {
			return true
		}
	}
	return false
}

func (v variables) risks() (risks []retrysafe.Risk) {
	add := func(bad bool, setting, loses, remedy string) {
		if bad {
			risks = append(risks, retrysafe.Risk{Setting: setting, Loses: loses, Remedy: remedy})
		}
	}
	const flush = "innodb_flush_log_at_trx_commit"
	crashes := "the server or its machine crashes" // 0
	if v.is(flush, "2") {
		crashes = "the machine crashes or loses its power" // the operating system has what was committed
	}
	add(!v.is(flush, "1", "3"), flush+" = "+v[flush],
		"If "+crashes+", claims and completions of the last second may be lost.",
		"Set innodb_flush_log_at_trx_commit to 1.")
	add(v.is("innodb_flush_method", "nosync", "O_DIRECT_NO_FSYNC"), "innodb_flush_method = "+v["innodb_flush_method"],
		"If the machine loses its power, claims and completions may be lost.", "Set innodb_flush_method to O_DIRECT.")
	add(v.is("innodb_doublewrite", "OFF", "0", "DETECT_ONLY", "DETECT_AND_RECOVER_ONLY"),
		"innodb_doublewrite = "+v["innodb_doublewrite"],
		"If the machine loses its power during a write, a page of records may be torn and lost.",
		"Set innodb_doublewrite to ON, unless the file system writes pages atomically.")
	if !v.is("log_bin", "ON", "1") {
		return risks
	}
	add(!v.is("sync_binlog", "1"), "sync_binlog = "+v["sync_binlog"],
		"If the machine loses its power, transactions that were in the binary log only may be missing on replicas, and a "+
			"failover to one of them loses claims.", "Set sync_binlog to 1.")
	add(v.is("binlog_format", "STATEMENT"), "binlog_format = STATEMENT",
		"The store cannot write at all, because InnoDB refuses READ COMMITTED with it.", "Set binlog_format to ROW.")
	synchronous := v.is("rpl_semi_sync_master_enabled", "ON") || v.is("rpl_semi_sync_source_enabled", "ON") ||
		v.is("wsrep_on", "ON") || v["group_replication_group_name"] != ""
	add(!synchronous, "log_bin = ON without semi-synchronous replication",
		"If there are replicas, a failover to one of them loses the claims and completions that it had not received.",
		"Enable semi-synchronous replication, with a long timeout, or do not fail over to a replica by itself.")
	afterCommit := v.is("rpl_semi_sync_master_wait_point", "AFTER_COMMIT") ||
		v.is("rpl_semi_sync_source_wait_point", "AFTER_COMMIT")
	add(synchronous && afterCommit, "semi-synchronous replication with the wait point AFTER_COMMIT",
		"Other sessions see a claim before a replica has it, and a failover then takes it back.",
		"Set the wait point to AFTER_SYNC.")
	return risks
}

// engines lists the tables that are not InnoDB's.
func (s *Store) engines(ctx context.Context, c *conn) (others string, err error) {
	text := "SELECT CONCAT(table_name, ' (', engine, ')') FROM information_schema.tables " +
		"WHERE table_schema = {{database_text}} AND table_name IN ({{tables_text}}) AND engine <> 'InnoDB'"
	names, err := namesIn(ctx, c, text, s.options.Database)
	return strings.Join(names, ", "), err
}

// WideRights returns the accounts that have been given ServiceGrants and can read the tables nevertheless, and so the
// answers and leases of all services: by other grants, such as GRANT ALL ON shop.*. It returns none if the account of db
// may not read the server's tables of accounts. An empty database is the selected one.
func WideRights(ctx context.Context, db *sql.DB, database string) (accounts []string, err error) {
	if database, err = checkDatabase(ctx, db, database); err != nil {
		return nil, err
	}
	return wideRights(ctx, db, database)
}

func wideRights(ctx context.Context, q runner, database string) (accounts []string, err error) {
	accounts, err = namesIn(ctx, q, sqlFile("wide_rights"), database)
	if n := errorNumber(err); n == tableDenied || n == columnDenied {
		return nil, nil
	}
	return accounts, err
}

// namesIn reads the only column of a query.
func namesIn(ctx context.Context, q runner, text, database string) (names []string, err error) {
	selected, err := q.QueryContext(ctx, inDatabase(text, database))
	err = readRows(selected, err, func(row *sql.Rows) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

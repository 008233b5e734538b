package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
)

// Risks returns the settings of the server, of the database and of the pool's connections with which an acknowledged
// claim or completion can be lost, and the roles of services that can read the tables. It implements
// [retrysafe.RiskReporter], needs no rights, and changes nothing. It cannot see settings that are changed later, nor a
// failover to a server that does not replicate from this one.
func (s *Store) Risks(ctx context.Context) ([]retrysafe.Risk, error) {
	var (
		fsync, fullPages, commit, synchronous string
		standbys                              int
	)
	err := s.pool.QueryRow(ctx, s.sql.risks).Scan(&fsync, &fullPages, &commit, &synchronous, &standbys)
	if err != nil {
		return nil, fmt.Errorf("pgstore: read the server's settings: %w", err)
	}
	var risks []retrysafe.Risk
	add := func(is bool, setting, loses, remedy string) {
		if is {
			risks = append(risks, retrysafe.Risk{Setting: setting, Loses: loses, Remedy: remedy})
		}
	}
	add(fsync == "off", "fsync = off",
		"If the machine crashes, committed claims are lost and the database may be damaged.", "Set fsync to on.")
	add(fullPages == "off", "full_page_writes = off",
		"If the machine crashes while it writes a page, records may be damaged.", "Set full_page_writes to on.")
	add(commit == "off", "synchronous_commit = off",
		"If the server crashes, claims of the last moments are lost.",
		"Set synchronous_commit to on for this role or database.")
	add(commit != "off" && standbys > 0 && (synchronous == "" || commit == "local"),
		fmt.Sprintf("%d standbys, synchronous_standby_names = '%s', synchronous_commit = %s", standbys, synchronous, commit),
		"If the server fails over to a standby that lacks some commits, their claims are lost.",
		"Set synchronous_standby_names, and synchronous_commit to on or remote_apply, "+
			"or treat keys claimed just before a failover as outcome unknown.")
	wide, err := WideRights(ctx, s.pool, s.options.Schema)
	if err != nil {
		return nil, err
	}
	for _, role := range wide {
		add(true, "rights of role "+role+" to the tables",
			"The role calls the functions as a service does, and can read all answers and leases.",
			"Run `retrysafe migrate up --service-role` with it, which takes its own rights back; "+
				"what it has as a superuser, or through PUBLIC or another role, REVOKE yourself.")
	}
	return risks, nil
}

// WideRights returns the roles that have been given ServiceGrants and can read the tables nevertheless, and so the answers
// and leases of all services: by another grant, by a role that they are in, or as superusers.
func WideRights(ctx context.Context, pool *pgxpool.Pool, schema string) (roles []string, err error) {
	if schema, err = checkSchema(schema); err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, inSchema(sqlFile("wide_rights"), schema))
	if err == nil {
		roles, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("pgstore: read the rights of roles: %w", err)
	}
	return roles, nil
}

package plain

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/bench/peers"
)

// PostgresTable has the columns of pgstore's claims, and the result. PostgreSQL's defaults, no second index.
const PostgresTable = `CREATE TABLE plain (
	k uuid PRIMARY KEY, owner uuid NOT NULL, fence bigint NOT NULL, first_fence bigint NOT NULL,
	claimed_at bigint NOT NULL,
	ends_at bigint NOT NULL, keep_replay bigint NOT NULL, keep_key bigint NOT NULL, keep_audit bigint NOT NULL,
	sweep_at integer NOT NULL, attempt integer NOT NULL, steps integer NOT NULL, code integer NOT NULL,
	state smallint NOT NULL, omitted boolean NOT NULL, waiters boolean NOT NULL, take_over boolean NOT NULL,
	fingerprint bytea NOT NULL, scope bytea NOT NULL, id bytea NOT NULL, meta bytea, body bytea)`

// The two statements. ByPgx sends parameters, and pgbench gets other expressions in their place.
const (
	postgresClaim = `INSERT INTO plain (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
	keep_audit, sweep_at, attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id)
SELECT $1, $2, now, now, now, now + $3::bigint, $4, $4, $4, now / 60000000, 1, 0, 0, 1, false, false, false, $5, $6, $7
FROM (SELECT (date_part('epoch', now()) * 1e6)::bigint) t (now) ON CONFLICT DO NOTHING`
	postgresComplete = `UPDATE plain SET state = 3, code = $2, ends_at = (date_part('epoch', now()) * 1e6)::bigint,
	meta = $3, body = $4
WHERE k = $1`
)

// ByPgx returns a peer whose statements are sent by pgx from this process. The difference between it and pgbench is
// caused by the client, not by the store.
func ByPgx(pool *pgxpool.Pool) peers.Peer {
	r := peers.Result()
	return peers.Each(func(ctx context.Context) error {
		k, owner, id := newKey()
		claimed, err := pool.Exec(ctx, postgresClaim, k, owner, peers.Lease.Microseconds(), peers.Keep.Microseconds(),
			[]byte(peers.Fingerprint), []byte(peers.Scope), id)
		if err != nil {
			return fmt.Errorf("plain claim: %w", err)
		}
		completed, err := pool.Exec(ctx, postgresComplete, k, r.Code, r.Meta, r.Body)
		if err == nil && claimed.RowsAffected()+completed.RowsAffected() != 2 {
			err = errNotFresh
		}
		return err
	})
}

// PgbenchScript returns a pair for pgbench. Two numbers of sixteen digits form a key, so that pgbench needs no function
// for it. Values that are the same for all keys are constants in the statement and are not sent. Both favour pgbench.
func PgbenchScript() string {
	const key = "(:a::text || :b::text)"
	r := peers.Result()
	keep := fmt.Sprint(peers.Keep.Microseconds())
	claim := strings.NewReplacer("$1", key+"::uuid", "$2", "(:b::text || :a::text)::uuid",
		"$3::bigint", fmt.Sprint(peers.Lease.Microseconds()), "$4", keep, "$5", Bytea([]byte(peers.Fingerprint)),
		"$6", Bytea([]byte(peers.Scope)), "$7", key+"::bytea").Replace(postgresClaim)
	complete := strings.NewReplacer("$1", key+"::uuid", "$2", fmt.Sprint(r.Code), "$3", Bytea(r.Meta),
		"$4", Bytea(r.Body)).Replace(postgresComplete)
	return `\set a random(1000000000000000, 9999999999999999)
\set b random(1000000000000000, 9999999999999999)
` + claim + ";\n" + complete + ";\n"
}

// Bytea returns b as a literal of SQL.
func Bytea(b []byte) string { return fmt.Sprintf(`'\x%x'::bytea`, b) }

// Pgbench holds the parameters of pgbench: the paths of the program and of its script, and the database.
type Pgbench struct{ Path, Script, URL string }

// Work is a Peer. Its callers are pgbench's clients, and pgbench takes the duration in whole seconds. The rate leaves
// out the time for connecting. If connecting takes all of the time, Work tries again with more.
func (b Pgbench) Work(ctx context.Context, clients int, d time.Duration) (done peers.Done, err error) {
	const most = 30
	for seconds := max(1, int(d.Round(time.Second)/time.Second)); done.Count == 0 && seconds < most; seconds *= 3 {
		if done, err = b.run(ctx, clients, seconds); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (b Pgbench) run(ctx context.Context, clients, seconds int) (peers.Done, error) {
	cmd := exec.CommandContext(ctx, b.Path, "-n", "-M", "prepared", "-f", b.Script, "-T", strconv.Itoa(seconds),
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, runtime.NumCPU())), b.URL)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return peers.Done{}, fmt.Errorf("pgbench: %w\n%s", err, messages.String())
	}
	return parsePgbench(string(out))
}

var (
	pgbenchPairs  = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed = regexp.MustCompile(`(?m)^number of failed transactions: ([1-9]\d*)`)
	pgbenchRate   = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
)

// parsePgbench parses pgbench's report. A failed pair is an error. There is no rate if connecting took all of the time.
func parsePgbench(report string) (done peers.Done, err error) {
	n, rate := pgbenchPairs.FindStringSubmatch(report), pgbenchRate.FindStringSubmatch(report)
	if n != nil && n[1] == "0" {
		return done, nil
	}
	if n == nil || rate == nil || pgbenchFailed.MatchString(report) {
		return done, fmt.Errorf("pgbench reports:\n%s", report)
	}
	if done.Count, err = strconv.ParseInt(n[1], 10, 64); err != nil {
		return done, err
	}
	done.PerSecond, err = strconv.ParseFloat(rate[1], 64)
	return done, err
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// The comparison for pgstore: the two usual statements on one plain table, sent by pgbench.

// plainTable has the columns of pgstore's claims, and the result. PostgreSQL's defaults, no second index.
const plainTable = `CREATE TABLE plain (
	k uuid PRIMARY KEY, owner uuid NOT NULL, fence bigint NOT NULL, first_fence bigint NOT NULL,
	claimed_at bigint NOT NULL,
	ends_at bigint NOT NULL, keep_replay bigint NOT NULL, keep_key bigint NOT NULL, keep_audit bigint NOT NULL,
	sweep_at integer NOT NULL, attempt integer NOT NULL, steps integer NOT NULL, code integer NOT NULL,
	state smallint NOT NULL, omitted boolean NOT NULL, waiters boolean NOT NULL, take_over boolean NOT NULL,
	fingerprint bytea NOT NULL, scope bytea NOT NULL, id bytea NOT NULL, meta bytea, body bytea)`

// plainScript is a pair. Two numbers of sixteen digits form a key, so that pgbench needs no function for it. Values
// that are the same for all keys are constants in the statement and are not sent. Both favour pgbench.
func plainScript() string {
	r := pairResult()
	return fmt.Sprintf(`\set a random(1000000000000000, 9999999999999999)
\set b random(1000000000000000, 9999999999999999)
INSERT INTO plain (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit,
	sweep_at, attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id)
SELECT (:a::text || :b::text)::uuid, (:b::text || :a::text)::uuid, now, now, now, now + 30000000, 86400000000,
	86400000000, 86400000000, now / 60000000, 1, 0, 0, 1, false, false, false, %s, %s, (:a::text || :b::text)::bytea
FROM (SELECT (date_part('epoch', now()) * 1e6)::bigint) t (now) ON CONFLICT DO NOTHING;
UPDATE plain SET state = 3, code = %d, ends_at = (date_part('epoch', now()) * 1e6)::bigint, meta = %s, body = %s
WHERE k = (:a::text || :b::text)::uuid;
`, byteaLiteral([]byte(pairFingerprint)), byteaLiteral([]byte(pairScope)), r.Code, byteaLiteral(r.Meta),
		byteaLiteral(r.Body))
}

func byteaLiteral(b []byte) string { return fmt.Sprintf(`'\x%x'::bytea`, b) }

// pgbench holds the parameters of pgbench.
type pgbench struct{ Path, Script, URL string }

func (s *pgServer) pgbench(r *run) (pgbench, error) {
	path, err := s.program("pgbench")
	if err != nil {
		return pgbench{}, err
	}
	b := pgbench{Path: path, Script: filepath.Join(r.dir, "plain.sql"), URL: s.url()}
	return b, os.WriteFile(b.Script, []byte(plainScript()), 0o600)
}

// run makes pairs with so many clients for d, which pgbench takes in whole seconds. It returns the number of pairs
// and the rate without connecting.
func (b pgbench) run(ctx context.Context, clients int, d time.Duration) (pairs int64, perSecond float64, err error) {
	seconds := max(1, int(d.Round(time.Second)/time.Second))
	cmd := exec.CommandContext(ctx, b.Path, "-n", "-M", "prepared", "-f", b.Script, "-T", strconv.Itoa(seconds),
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, runtime.NumCPU())), b.URL)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("pgbench: %w\n%s", err, messages.String())
	}
	return parsePgbench(string(out))
}

var (
	pgbenchPairs  = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed = regexp.MustCompile(`(?m)^number of failed transactions: ([1-9]\d*)`)
	pgbenchRate   = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
)

// parsePgbench parses pgbench's report. A failed pair is an error.
func parsePgbench(report string) (pairs int64, perSecond float64, err error) {
	n, rate := pgbenchPairs.FindStringSubmatch(report), pgbenchRate.FindStringSubmatch(report)
	if n == nil || rate == nil || pgbenchFailed.MatchString(report) {
		return 0, 0, fmt.Errorf("pgbench reports:\n%s", report)
	}
	if pairs, err = strconv.ParseInt(n[1], 10, 64); err != nil {
		return 0, 0, err
	}
	perSecond, err = strconv.ParseFloat(rate[1], 64)
	return pairs, perSecond, err
}

// bestClients finds the number of clients with which pgbench is fastest, and returns the rates that it tried.
func (b pgbench) bestClients(ctx context.Context, r *run) (best int, tried string, err error) {
	var fastest float64
	for _, clients := range []int{1, 4, 8, 16, 32, 64} {
		r.progress("try pgbench with %d clients", clients)
		_, rate, err := b.run(ctx, clients, r.length(2*time.Second))
		if err != nil {
			return 0, "", err
		}
		if rate > fastest {
			best, fastest = clients, rate
		}
		tried += fmt.Sprintf(" %d: %.0f", clients, rate)
	}
	return best, strings.TrimSpace(tried), nil
}

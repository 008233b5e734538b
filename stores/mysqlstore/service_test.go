package mysqlstore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// serviceStore is a Store over the procedures for services. Sweep, Inspect and Reopen, which they do not offer, are
// those of the Go store.
type serviceStore struct {
	retrysafe.Inspector
	retrysafe.Sweeper
	retrysafe.Reopener
	database string
	service  *sql.DB // of an account that may call the procedures, and nothing else
	// tables is the pool of the tables' owner. Claim calls the procedure inside of the public one with it if the record is
	// of another request, because the contract shows that too.
	tables *sql.DB
	// results has Complete do so too, because the contract has results that are not HTTP's.
	results bool
}

// openService returns a store over the procedures, whose sessions have these settings.
func openService(t testing.TB, owner *Store, settings map[string]string) *serviceStore {
	t.Helper()
	s := &serviceStore{
		Inspector: owner, Sweeper: owner, Reopener: owner, database: owner.options.Database,
		service: openPool(t, serviceAt(t, owner, settings)),
		tables:  openPool(t, withSettings(t, shared.Get(t).DSN(owner.options.Database), settings)),
		results: true,
	}
	s.service.SetMaxIdleConns(40)
	return s
}

// serviceAt returns the data source name of an account of a service.
func serviceAt(t testing.TB, owner *Store, settings map[string]string) string {
	t.Helper()
	role, at := stranger(t, shared.Get(t).DSN(owner.options.Database))
	_, err := Migrate(context.Background(), owner.db, MigrateOptions{ServiceRole: role + "@%"})
	if err != nil {
		t.Fatal(err)
	}
	return withSettings(t, at, settings)
}

// withSettings adds settings of sessions to a data source name.
func withSettings(t testing.TB, dsn string, settings map[string]string) string {
	return withParams(t, dsn, func(c *mysql.Config) { maps.Copy(c.Params, settings) })
}

// claimed is the row that retrysafe_claim returns.
type claimed struct {
	verdict, state                                           string
	lease, contentType, headers, steps                       sql.NullString
	attempt, code, fence, firstFence                         sql.NullInt64
	body, fingerprint, meta                                  []byte
	failed, omitted                                          sql.NullBool
	leaseLeft, age, endedAge, replayLeft, keyLeft, auditLeft sql.NullString // seconds
}

// heldUp reports whether the answer is that another transaction holds the row: it says to wait a second.
func (c *claimed) heldUp() bool { return c.verdict == "in_flight" && c.leaseLeft.String == "1.000000" }

func callClaim(ctx context.Context, db *sql.DB, database string, scope, id, fingerprint string, options any) (c claimed, err error) {
	return scanClaim(db.QueryRowContext(ctx, inDatabase("CALL {{claim}} (?, ?, ?, ?)", database),
		[]byte(scope), []byte(id), []byte(fingerprint), options))
}

func scanClaim(row *sql.Row) (c claimed, err error) {
	var state sql.NullString
	err = row.Scan(
		&c.verdict, &c.lease, &c.attempt, &c.code, &c.contentType, &c.headers, &c.body, &c.failed, &c.omitted, &c.leaseLeft,
		&state, &c.fence, &c.firstFence, &c.fingerprint, &c.steps, &c.meta, &c.age, &c.endedAge, &c.replayLeft, &c.keyLeft,
		&c.auditLeft)
	c.state = state.String
	return c, err
}

// seconds is a duration as the procedures take it, rounded up to a microsecond.
func seconds(d time.Duration) json.Number {
	n := storekit.Micros(d)
	return json.Number(fmt.Sprintf("%d.%06d", n/1e6, n%1e6))
}

func duration(seconds sql.NullString) time.Duration {
	whole, fraction, _ := strings.Cut(seconds.String, ".")
	s, _ := strconv.ParseInt(whole, 10, 64)
	f, _ := strconv.ParseInt(fraction, 10, 64)
	return storekit.Duration(s*1e6 + f)
}

// Claim implements retrysafe.Store.
func (s *serviceStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (_ retrysafe.Claim, err error) {
	keep := p.Keep.WithDefaults()
	options, err := json.Marshal(map[string]any{
		"lease_for": seconds(p.Lease), "owner": p.Owner.String(), "take_over": p.TakeOver,
		"keep": seconds(keep.Replay), "keep_key": seconds(keep.Key), "keep_audit": seconds(keep.Audit),
	})
	if err != nil {
		return retrysafe.Claim{}, err
	}
	var c claimed
	// On a busy machine a second may be too short for many claims at once, and 16 tries of the procedure too few.
	for again := true; again; again = c.heldUp() || errorNumber(err) == deadlock {
		c, err = callClaim(ctx, s.service, s.database, p.Key.Scope, p.Key.ID, string(p.Fingerprint), options)
		if err == nil && c.verdict == "mismatch" {
			c, err = scanClaim(s.tables.QueryRowContext(ctx, inDatabase("CALL {{claim_record}} (?, ?, ?, ?, TRUE)", s.database),
				[]byte(p.Key.Scope), []byte(p.Key.ID), []byte(p.Fingerprint), options))
		}
	}
	if err != nil {
		return retrysafe.Claim{}, storeError(ctx, err)
	}
	r := retrysafe.Record{
		Key: p.Key, Fingerprint: retrysafe.Fingerprint(c.fingerprint),
		State: map[string]retrysafe.State{
			"pending": retrysafe.Pending, "released": retrysafe.Released, "succeeded": retrysafe.Succeeded, "failed": retrysafe.Failed,
		}[c.state],
		Fence: c.fence.Int64, FirstFence: c.firstFence.Int64, Attempt: int(c.attempt.Int64), Age: duration(c.age),
		LeaseLeft: duration(c.leaseLeft), EndedAge: duration(c.endedAge),
		ReplayLeft: duration(c.replayLeft), KeyLeft: duration(c.keyLeft), AuditLeft: duration(c.auditLeft),
		Result: retrysafe.Result{
			Failed: c.failed.Bool, Code: int(c.code.Int64), Omitted: c.omitted.Bool, Meta: c.meta, Body: c.body,
		},
	}
	if r.Steps, err = readSteps(c.steps.String); err != nil {
		return retrysafe.Claim{}, err
	}
	answer := retrysafe.Claim{Record: r, Verdict: map[string]retrysafe.Verdict{
		"acquired": retrysafe.Acquired, "in_flight": retrysafe.InFlight, "done": retrysafe.Done, "abandoned": retrysafe.Abandoned,
	}[c.verdict]}
	switch {
	case c.verdict == "acquired":
		answer.Lease = retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: r.Fence}
		if c.lease.String != answer.Lease.Token() {
			return retrysafe.Claim{}, fmt.Errorf("the token is %q, and Go's %q", c.lease.String, answer.Lease.Token())
		}
	case c.verdict == "mismatch" && r.State.Ended():
		answer.Verdict = retrysafe.Done
	case c.verdict == "mismatch" && (r.State == retrysafe.Released || r.LeaseLeft > 0):
		answer.Verdict = retrysafe.InFlight
	case c.verdict == "mismatch":
		answer.Verdict = retrysafe.Abandoned
	}
	return answer, nil
}

func readSteps(text string) (steps []retrysafe.StepResult, err error) {
	if text == "" {
		return nil, nil
	}
	var all []struct{ Name, Data string }
	err = json.Unmarshal([]byte(text), &all)
	for _, s := range all {
		name, bad := hex.DecodeString(s.Name)
		data, worse := hex.DecodeString(s.Data)
		err = errors.Join(err, bad, worse)
		steps = append(steps, retrysafe.StepResult{Name: string(name), Data: data})
	}
	return steps, err
}

// storeError is an error of a procedure as a Store returns it.
func storeError(ctx context.Context, err error) error {
	switch sqlState(err) {
	case "RS001", "RS003":
		return fmt.Errorf("%w: %w", retrysafe.ErrLeaseLost, err)
	case "RS004":
		return nil // the first result stays
	case "RS006": // the procedure for steps takes shorter names than Checkpoint
		if strings.Contains(err.Error(), "more than 2048 bytes") {
			return fmt.Errorf("%w: %w", retrysafe.ErrResultTooLarge, err)
		}
	}
	if err != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// token is the token of a lease; also of one whose fence is 0, for which Go makes none.
func token(l retrysafe.Lease) string {
	d := l.Key.Digest()
	raw := slices.Concat(d[:], l.Owner[:], binary.BigEndian.AppendUint64(nil, uint64(l.Fence)))
	return "v1." + base64.RawURLEncoding.EncodeToString(raw)
}

// decodeOwner reads the owner from a token.
func decodeOwner(t testing.TB, token string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "v1."))
	if err != nil || len(raw) != 40 {
		t.Fatalf("the token is %q", token)
	}
	return raw[16:32]
}

// sqlState is the SQLSTATE of an error; "" if it is not the server's.
func sqlState(err error) string {
	var my *mysql.MySQLError
	if !errors.As(err, &my) {
		return ""
	}
	return string(my.SQLState[:])
}

// call calls a procedure under a lease, in a transaction of db unless that is nil. It does so again when the server
// says so, as every user of transactions has to.
func (s *serviceStore) call(ctx context.Context, db *sql.DB, text string, args ...any) error {
	text = inDatabase(text, s.database)
	for {
		err := func() error {
			if db == nil {
				_, err := s.service.ExecContext(ctx, text, args...)
				return err
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.ExecContext(ctx, text, args...); err != nil {
				return err
			}
			return tx.Commit()
		}()
		switch errorNumber(err) {
		case deadlock, lockWaitTimeout, changedSinceRead:
			continue
		}
		return storeError(ctx, err)
	}
}

// Extend implements retrysafe.Store.
func (s *serviceStore) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.call(ctx, nil, "CALL {{extend}} (?, ?)", token(l), string(seconds(d)))
}

// Checkpoint implements retrysafe.Store.
func (s *serviceStore) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	return s.call(ctx, nil, "CALL {{save_step}} (?, ?, ?)", token(l), []byte(step.Name), notNil(step.Data))
}

// Complete implements retrysafe.Store.
func (s *serviceStore) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if !s.results {
		options := fmt.Sprintf(`{"keep": %s}`, seconds(keep.WithDefaults().Replay))
		return s.call(ctx, s.service, "CALL {{complete}} (?, ?, NULL, ?)", token(l), notNil(r.Body), options)
	}
	k := storekit.NewKeep(keep)
	return s.call(ctx, s.tables, "CALL {{end_attempt}} (?, 'complete', ?, ?, ?, ?, ?, ?, ?, ?)", token(l), int(r.State()), r.Code,
		r.Omitted, notNil(r.Meta), notNil(r.Body), k.Replay, k.Key, k.Audit)
}

// Release implements retrysafe.Store.
func (s *serviceStore) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.call(ctx, nil, "CALL {{release}} (?)", token(l))
}

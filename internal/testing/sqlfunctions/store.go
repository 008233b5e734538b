// Package sqlfunctions is a retrysafe.Store that makes every call through the SQL functions of a PostgreSQL schema, as a
// service in another language does, so that the tests of the Store contract test the functions; and the rules that the
// functions and the procedures of MySQL have in common.
package sqlfunctions

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Store calls the functions with any driver for PostgreSQL. It is a client as the reference describes it: it calls claim,
// extend, save_step and release each in a transaction of its own, and complete and fail inside of one that it begins; if
// the server asks for that, with SQLSTATE 40001 or 40P01, it runs a transaction again.
type Store struct {
	DB     *sql.DB
	Schema string
	// Records has a claim show the record of another request too, as the contract asks. It calls claim_record for that,
	// which services may not.
	Records bool
	// Results has Complete keep every field of a Result. It calls end_attempt for that, which services may not. Otherwise
	// answers have the code 200 or 422 and no Meta, and stay for as long as the claim has said.
	Results bool
	// Hold has Complete call hold first, which refuses most of what complete refuses.
	Hold bool
	// NoCancel leaves a call running whose context ends, as clients do that cannot cancel a statement. PgBouncer 1.18 ends
	// itself ("bad client state") if a client is killed after it has sent many requests to cancel.
	NoCancel bool
}

// SQLSTATEs of the functions, and of transactions that are to be run again.
const (
	leaseLost       = "RS001"
	noSuchClaim     = "RS003"
	anotherAnswer   = "RS004"
	invalidArgument = "RS006"
	serialization   = "40001"
	deadlock        = "40P01"
	claimParameters = "$1::bytea, $2::bytea, $3::bytea, $4::text::interval, $5::text::interval, $6::boolean, $7::text::uuid, " +
		"$8::text::interval, $9::text::interval"
	claimColumns = `verdict, state, coalesce(lease, ''), coalesce(fence, 0), coalesce(first_fence, 0), coalesce(attempt, 0),
		stored_fingerprint, coalesce(code, 0), coalesce(failed, false), coalesce(omitted, false), meta, body,
		ARRAY(SELECT encode(n, 'hex') FROM unnest(step_names) n)::text, ARRAY(SELECT encode(d, 'hex') FROM unnest(step_data) d)::text,
		MICROS(age), MICROS(ended_age), MICROS(lease_left), MICROS(replay_left), MICROS(key_left), MICROS(audit_left)`
)

// columns is claimColumns with its intervals as microseconds.
func columns() string {
	text := claimColumns
	for _, name := range []string{"age", "ended_age", "lease_left", "replay_left", "key_left", "audit_left"} {
		text = strings.Replace(text, "MICROS("+name+")", "coalesce(extract(epoch FROM "+name+") * 1000000, 0)::bigint", 1)
	}
	return text
}

// Claim implements retrysafe.Store.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	for {
		c, err := s.claim(ctx, "claim", p)
		if err == nil && c.Verdict == 0 && s.Records { // the record is of another request, and hidden
			c, err = s.claim(ctx, "claim_record", p)
		}
		switch {
		case err != nil:
			return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
		case c.Record.Fence == 0: // another transaction holds the row: a client polls
			continue
		case c.Verdict == 0:
			c.Verdict = verdictOf(c.Record)
			c.Record.ReplayLeft = 0 // as far as this caller is concerned
		}
		return c, nil
	}
}

func (s *Store) claim(ctx context.Context, function string, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	keep := p.Keep.WithDefaults()
	query := "SELECT " + columns() + " FROM " + s.Schema + "." + function + "(" + claimParameters + ")"
	var c retrysafe.Claim // of which nothing is read if the call goes on after its context has ended
	err := s.again(ctx, func(ctx context.Context) (err error) {
		c, err = s.scan(s.DB.QueryRowContext(ctx, query, bytes(p.Key.Scope), bytes(p.Key.ID), bytes(p.Fingerprint),
			interval(p.Lease), interval(keep.Replay), p.TakeOver, p.Owner.String(), interval(keep.Key), interval(keep.Audit)))
		return err
	})
	if err != nil {
		return retrysafe.Claim{}, err
	}
	c.Record.Key = p.Key
	if c.Verdict == retrysafe.Acquired {
		c.Lease.Key, c.Lease.Owner = p.Key, p.Owner
	} else if function == "claim_record" {
		c.Verdict = verdictOf(c.Record)
	}
	return c, nil
}

var verdicts = map[string]retrysafe.Verdict{
	"acquired": retrysafe.Acquired, "in_flight": retrysafe.InFlight, "done": retrysafe.Done, "abandoned": retrysafe.Abandoned,
	"mismatch": 0,
}

var states = map[string]retrysafe.State{
	"pending": retrysafe.Pending, "released": retrysafe.Released, "succeeded": retrysafe.Succeeded, "failed": retrysafe.Failed,
}

// scan reads the row of a claim. The Verdict of a mismatch is 0.
func (s *Store) scan(row *sql.Row) (c retrysafe.Claim, err error) {
	r := &c.Record
	var verdict, state, token, names, data string
	var fingerprint []byte
	var left [6]int64
	err = row.Scan(&verdict, &state, &token, &r.Fence, &r.FirstFence, &r.Attempt, &fingerprint, &r.Result.Code,
		&r.Result.Failed, &r.Result.Omitted, &r.Result.Meta, &r.Result.Body, &names, &data,
		&left[0], &left[1], &left[2], &left[3], &left[4], &left[5])
	if err != nil {
		return retrysafe.Claim{}, err
	}
	known := false
	if c.Verdict, known = verdicts[verdict]; !known {
		return retrysafe.Claim{}, fmt.Errorf("unknown verdict %q", verdict)
	}
	if (c.Verdict == retrysafe.Acquired) != (token != "") {
		return retrysafe.Claim{}, fmt.Errorf("the verdict is %q, and the lease token has %d characters", verdict, len(token))
	}
	if c.Verdict == retrysafe.Acquired {
		c.Lease.Fence = r.Fence
	}
	r.State, r.Fingerprint = states[state], retrysafe.Fingerprint(fingerprint)
	for i, to := range []*time.Duration{&r.Age, &r.EndedAge, &r.LeaseLeft, &r.ReplayLeft, &r.KeyLeft, &r.AuditLeft} {
		*to = time.Duration(left[i]) * time.Microsecond
	}
	r.Steps, err = steps(names, data)
	return c, err
}

// steps reads two arrays of hex digits.
func steps(names, data string) (all []retrysafe.StepResult, err error) {
	elements := func(array string) []string {
		if array = strings.Trim(array, "{}"); array == "" {
			return nil
		}
		return strings.Split(strings.ReplaceAll(array, `"`, ""), ",")
	}
	values := elements(data)
	for i, n := range elements(names) {
		name, err := hex.DecodeString(n)
		if err != nil {
			return nil, err
		}
		value, err := hex.DecodeString(values[i])
		if err != nil {
			return nil, err
		}
		all = append(all, retrysafe.StepResult{Name: string(name), Data: value})
	}
	return all, nil
}

// verdictOf is what the contract says of a record that is of another request.
func verdictOf(r retrysafe.Record) retrysafe.Verdict {
	switch {
	case r.State.Ended():
		return retrysafe.Done
	case r.State == retrysafe.Released, r.LeaseLeft > 0:
		return retrysafe.InFlight
	}
	return retrysafe.Abandoned
}

// Extend implements retrysafe.Store.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.call(ctx, "extend", l, "$1, $2::text::interval", l.Token(), interval(d))
}

// Checkpoint implements retrysafe.Store.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	return s.call(ctx, "save_step", l, "$1, $2, $3::bytea", l.Token(), step.Name, bytes(step.Data))
}

// Release implements retrysafe.Store.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.call(ctx, "release", l, "$1", l.Token())
}

// call calls a function in a transaction of its own.
func (s *Store) call(ctx context.Context, function string, l retrysafe.Lease, parameters string, args ...any) error {
	if l.Token() == "" {
		return lost(function, l) // no claim has such a lease
	}
	query := "SELECT " + s.Schema + "." + function + "(" + parameters + ")"
	err := s.again(ctx, func(ctx context.Context) error {
		_, err := s.DB.ExecContext(ctx, query, args...)
		return err
	})
	return explain(function, l, err)
}

// Complete implements retrysafe.Store.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if l.Token() == "" {
		return lost("complete", l)
	}
	query, args := "complete($1, $2::bytea)", []any{l.Token(), bytes(r.Body)}
	switch keep = keep.WithDefaults(); {
	case s.Results:
		query = "end_attempt($1, 'complete', $2::smallint, $3, $4, $5::bytea, $6::bytea, $7, $8, $9)"
		args = []any{
			l.Token(), int16(r.State()), r.Code, r.Omitted, bytes(r.Meta), bytes(r.Body),
			micros(keep.Replay), micros(keep.Key), micros(keep.Audit),
		}
	case r.Failed:
		query = strings.Replace(query, "complete", "fail", 1)
	}
	err := s.again(ctx, func(ctx context.Context) error {
		tx, err := s.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		first := "SELECT pg_current_xact_id(), $1::text" // a transaction that has written
		if s.Hold {
			first = "SELECT " + s.Schema + ".hold($1)"
		}
		if _, err = tx.ExecContext(ctx, first, l.Token()); err == nil {
			_, err = tx.ExecContext(ctx, "SELECT "+s.Schema+"."+query, args...)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	if stateOf(err) == anotherAnswer {
		return nil // the first result stays, as the contract has it
	}
	return explain("complete", l, err)
}

// again calls f until the server has nothing against it but others that ran beside it.
func (s *Store) again(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil || !s.NoCancel {
		return repeat(ctx, f)
	}
	done := make(chan error, 1)
	go func() { done <- repeat(context.WithoutCancel(ctx), f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func repeat(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if code := stateOf(err); code != serialization && code != deadlock || ctx.Err() != nil {
			return err
		}
	}
}

func lost(verb string, l retrysafe.Lease) error {
	return fmt.Errorf("%s %s: %w", verb, l.Key, retrysafe.ErrLeaseLost)
}

func explain(verb string, l retrysafe.Lease, err error) error {
	switch stateOf(err) {
	case leaseLost, noSuchClaim:
		err = errors.Join(retrysafe.ErrLeaseLost, err)
	case invalidArgument: // the name of a step is too long: all that a Store is given otherwise is valid
		err = errors.Join(retrysafe.ErrResultTooLarge, err)
	case "":
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s %s: %w", verb, l.Key, err)
}

// stateOf returns the SQLSTATE of an error of the server, "" of any other.
func stateOf(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

func bytes[T ~string | ~[]byte](v T) []byte { return append([]byte{}, v...) }

// micros is d in microseconds, rounded up so that nothing ends early.
func micros(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Microsecond) + 1
}

func interval(d time.Duration) string { return fmt.Sprintf("%d microseconds", micros(d)) }

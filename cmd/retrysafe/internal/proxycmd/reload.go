package proxycmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/proxy"
)

// watchEvery is how often watch looks at the files.
const watchEvery = time.Second

// maxReadings bounds how often files are read that change while they are read.
const maxReadings = 5

// reading is what flags and files say at one moment.
type reading struct {
	config *config.Config // nil: it could not be read
	plan   *plan          // nil: it has faults
	files  []string       // that were read, or that could not be read
	digest config.Digest
}

// read reads the file and those that it names, and checks them as --check does. It does so until they are the same
// before and after it: if one of them changes meanwhile, the parts that it has read may not belong together. Of a
// configuration that cannot be read it is not known which files it names; files are those that it named before.
func (p Cmd) read(files ...string) (r reading, err error) {
	files = append(files, p.files()...)
	for range maxReadings {
		slices.Sort(files)
		files = slices.Compact(files)
		before := config.DigestOf(files)
		r = reading{files: files}
		r.config, err = p.configuration()
		if err = errors.Join(checkVariables(os.Environ()), err); err != nil {
			err = cli.Refuse(err)
		}
		if r.config != nil {
			r.files = r.config.Files()
		}
		if err == nil {
			r.plan, err = newPlan(r.config)
		}
		if r.digest = config.DigestOf(r.files); r.digest == before {
			return r, err
		}
		files = r.files
	}
	return reading{files: files}, errors.New("the files of the configuration change while they are read; try again")
}

// files returns the file of the flags.
func (p Cmd) files() []string {
	if p.Config == "" {
		return nil
	}
	return []string{p.Config}
}

// hangups returns the signals that ask for a reload. A proxy without a file gets none: it has nothing to reload, and a
// closed terminal ends it.
func (p Cmd) hangups() (hangups chan os.Signal, stop func()) {
	hangups = make(chan os.Signal, 1) // further ones ask for what one more reload does
	if p.Config != "" {
		signal.Notify(hangups, syscall.SIGHUP)
	}
	return hangups, func() { signal.Stop(hangups) }
}

// reloads reloads, one time after the other, until the context ends: on a signal, and with watch when the files have
// changed. A file that differs from one look to the next is still being written, and is not read.
func (s *service) reloads(ctx context.Context) {
	var look <-chan time.Time
	if s.config.Watch.Value {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	var seen looks
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hangups:
			s.reload(ctx, "SIGHUP")
		case <-look:
			if seen.changed(config.DigestOf(s.tried.files), s.tried.digest) {
				s.reload(ctx, "watch")
			}
		}
	}
}

// looks are those of watch at the files.
type looks struct{ last config.Digest }

// changed reports whether the files differ from those that were tried, and are the same as at the look before.
func (l *looks) changed(now, tried config.Digest) bool {
	settled := now == l.last
	l.last = now
	return settled && now != tried
}

// reload puts what flags and files say now into force, all of it or nothing, and logs and counts which.
func (s *service) reload(ctx context.Context, by string) {
	next, err := s.command.read(s.tried.files...)
	s.tried = next
	if next.config != nil {
		err = errors.Join(err, next.config.CheckReload(s.config))
	}
	if err == nil && !bytes.Equal(next.plan.guard.ChildSecret, s.plan.guard.ChildSecret) { // which a file may hold
		err = errors.New("upstream_key_secret cannot change while the proxy runs; restart it")
	}
	if err == nil {
		before := s.inForce.Load()
		if err = s.replace(ctx, next.plan); err == nil {
			s.warnOfOtherKeys(next.plan, before)
		}
	}
	s.reloaded(ctx, err == nil)
	if err != nil {
		s.log.Error("the configuration was not reloaded; the running one stays in force", "by", by, "error", err.Error())
		if s.config.Log.Value == "text" { // where a line break is two characters, and the marks would be under nothing
			fmt.Fprintln(s.logs, err)
		}
		return
	}
	logWarnings(s.log, next.config)
	s.log.Info("the configuration was reloaded", "by", by, "upstream", next.plan.options.Upstream.URL.String(),
		"scope", next.config.Scope.Value, "routes", len(next.config.Routes))
}

// replace lets requests that come from now on have another plan. What belongs to the plan before ends with its last
// request.
func (s *service) replace(ctx context.Context, next *plan) error {
	ctx, stop := context.WithCancel(ctx)
	scope, err := next.scope.open(ctx, s.log)
	if err != nil {
		stop()
		return fmt.Errorf("scope %s: %w", next.scope.scope, err)
	}
	started := s.options
	next.options.Observer, next.options.Observation = started.Observer, started.Observation
	next.options.TraceFunc, next.options.ErrorLog = started.TraceFunc, started.ErrorLog
	accepting := next.config.Inboxes()
	if s.inboxes == nil && len(accepting) > 0 {
		stop()
		return errors.New("accept: inbox cannot be added to a proxy that has started without an inbox; restart it")
	}
	var installed map[string]*inbox.Inbox
	if s.inboxes != nil {
		installed = s.inboxes.install(&next.options, accepting)
	}
	if err := s.handler.Reload(scope, next.options, s.stopScope); err != nil {
		stop()
		return err
	}
	s.startInboxes(installed)
	if s.keys != nil { // then next has a keyset too: the setting plaintext, which comes with it, cannot change
		s.keys.Use(next.keyset)
	}
	s.stopScope = stop
	if s.envoy.Load() != nil { // the setting ext_proc cannot change
		s.answerEnvoy(next.config)
	}
	s.inForce.Store(next)
	return nil
}

// warnOfOtherKeys logs which requests have another key than they had under the plan before: their operations are not
// recognised.
func (s *service) warnOfOtherKeys(next, before *plan) {
	const warning = "the keys of requests have changed: a retry of one that ran before this reload runs again"
	if !reflect.DeepEqual(next.scope, before.scope) {
		s.log.Warn(warning, "because", "scope", "routes", "all")
		return
	}
	was := map[string]httpsafe.Options{}
	for _, r := range before.routes() {
		was[r.Pattern] = r.HTTP
	}
	for _, r := range next.routes() {
		if o, ok := was[r.Pattern]; ok && madeOf(o) != madeOf(r.HTTP) {
			s.log.Warn(warning, "because", "key, secret, verify or scope_version",
				"routes", cmp.Or(r.Pattern, config.DefaultTopic))
		}
	}
}

// routes returns the routes, with that of all other requests, which has no pattern.
func (p *plan) routes() []proxy.Route {
	return append(slices.Clone(p.options.Routes), p.options.Default)
}

// madeOf tells keys that are made in one way from those that are made in another. Where a client sends its key makes no
// difference: the key is the same in a header and in the body.
func madeOf(o httpsafe.Options) string {
	how := fmt.Sprintf("%q %t", o.ScopeVersion, o.VerifyFunc != nil)
	switch o.KeySource.(type) {
	case httpsafe.NaturalKey, httpsafe.BodyHash:
		how += fmt.Sprintf(" %T %+[1]v", o.KeySource)
	}
	return how
}

// logMadeKeys logs what the keys of each route are made of that makes them itself. A process that starts does not know
// the settings before it, so that it cannot warn as warnOfOtherKeys does: the lines of two starts show the difference.
func logMadeKeys(log *slog.Logger, p *plan) {
	for _, r := range p.routes() {
		of := []any{"route", cmp.Or(r.Pattern, config.DefaultTopic)}
		switch k := r.HTTP.KeySource.(type) {
		case httpsafe.NaturalKey:
			of = append(of, "kind", "natural", "path", k.PathValues, "fields", k.Fields, "reference", k.Reference)
		case httpsafe.BodyHash:
			of = append(of, "kind", "body_hash", "fields", k.Fields.Include, "intent", k.Intent)
		default:
			continue
		}
		log.Info("keys are made from requests", append(of, "scope_version", r.HTTP.ScopeVersion)...)
	}
}

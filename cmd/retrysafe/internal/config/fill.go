package config

import (
	"errors"
	"fmt"
	"time"
)

// Flags are settings of the command line that have a form to keep. Empty ones are not set.
type Flags struct {
	Upstream, Listen, Admin, Log, PublicURL string
}

// Override puts flags into c.
func (c *Config) Override(f Flags) error {
	return errors.Join(
		override(&c.Upstream.URL, "--upstream", f.Upstream, ParseUpstream),
		override(&c.Listen, "--listen", f.Listen, ParseListen),
		override(&c.Admin, "--admin", f.Admin, ParseListen),
		override(&c.Log, "--log", f.Log, choice("json", "text")),
		override(&c.PublicURL, "--public-url", f.PublicURL, parsePublicURL),
	)
}

func override[T any](s *Setting[T], flag, text string, parse func(string) (T, error)) error {
	if text == "" {
		return nil
	}
	v, err := parse(text)
	if w := new(wrong); errors.As(err, &w) {
		return fmt.Errorf("%s: %s: %s", flag, w.message, w.instead)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	*s = Given(v)
	return nil
}

// What is in force where nothing is said.
const (
	defaultListen        = "127.0.0.1:8080"
	defaultStore         = "retrysafe.db"
	defaultScope         = "credential"
	defaultLog           = "text"
	defaultGrace         = 30 * time.Second
	defaultHeaderBytes   = 64 << 10
	defaultHeaderTimeout = 10 * time.Second
	defaultBodyTimeout   = 30 * time.Second
	defaultIdleTimeout   = 2 * time.Minute
	defaultConcurrent    = 10_000
	defaultDialTimeout   = 5 * time.Second
	defaultUpstreamIdle  = 4 * time.Second
)

// FillIn gives everything a value that nobody has given one. It returns an error if the whole makes no sense with what
// flags have changed.
func (c *Config) FillIn() error {
	r := &reader{}
	r.check(c)
	if len(r.faults) > 0 {
		return &Faults{File: "flags", All: r.faults}
	}
	c.Listen.Default(defaultListen)
	c.Store.Default(defaultStore)
	c.Scope.Default(defaultScope)
	c.Log.Default(defaultLog)
	c.Grace.Default(defaultGrace)
	c.Limits.HeaderBytes.Default(defaultHeaderBytes)
	c.Limits.HeaderTimeout.Default(defaultHeaderTimeout)
	c.Limits.BodyTimeout.Default(defaultBodyTimeout)
	c.Limits.IdleTimeout.Default(defaultIdleTimeout)
	c.Limits.Concurrent.Default(defaultConcurrent)
	c.Upstream.DialTimeout.Default(defaultDialTimeout)
	c.Upstream.IdleTimeout.Default(defaultUpstreamIdle)
	return nil
}

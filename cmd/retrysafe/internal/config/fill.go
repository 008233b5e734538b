package config

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/probe/yamlfile"
)

// Flags are settings of the command line that have a form to keep. Empty ones are not set.
type Flags struct {
	Upstream, Listen, Admin, Scope, Log, PublicURL string
}

// Override puts flags into c.
func (c *Config) Override(f Flags) error {
	return errors.Join(
		override(&c.Upstream.URL, "--upstream", f.Upstream, parseUpstream),
		override(&c.Listen, "--listen", f.Listen, parseListen),
		override(&c.Admin, "--admin", f.Admin, parseListen),
		override(&c.Scope, "--scope", f.Scope, parseScope),
		override(&c.Log, "--log", f.Log, yamlfile.Choice("json", "text")),
		override(&c.PublicURL, "--public-url", f.PublicURL, parsePublicURL),
	)
}

func override[T any](s *Setting[T], flag, text string, parse func(string) (T, error)) error {
	if text == "" {
		return nil
	}
	v, err := parse(text)
	if err != nil {
		return yamlfile.ForFlag(flag, err)
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
	defaultWriteTimeout  = 30 * time.Second
	defaultMemory        = 64 << 20
	defaultConcurrent    = 1000
	defaultKeysPerCaller = 360_000
	defaultDialTimeout   = 5 * time.Second
	defaultUpstreamIdle  = 4 * time.Second
	// defaultWait is how long a retry waits for an attempt in flight. A client that lost its connection retries within
	// milliseconds, while its first attempt still works, and few client libraries retry a 409. It is shorter than their
	// usual timeouts.
	defaultWait = 5 * time.Second
)

// FillIn gives everything a value that nobody has given one. It returns an error if the whole makes no sense with what
// flags have changed.
func (c *Config) FillIn() error {
	// Flags are in no file: what is wrong with them is told as in an empty one.
	if err := yamlfile.Read("flags", nil, "", nil, c.check); err != nil {
		return err
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
	c.Limits.WriteTimeout.Default(defaultWriteTimeout)
	c.Limits.Memory.Default(defaultMemory)
	c.Limits.Concurrent.Default(defaultConcurrent)
	c.Limits.ConcurrentPerCaller.Default(max(c.Limits.Concurrent.Value/4, 1))
	c.Limits.KeysPerCaller.Default(defaultKeysPerCaller)
	c.Upstream.DialTimeout.Default(defaultDialTimeout)
	c.Upstream.IdleTimeout.Default(defaultUpstreamIdle)
	c.Defaults.InFlight.Default(InFlight{Kind: "wait", Wait: defaultWait})
	return nil
}

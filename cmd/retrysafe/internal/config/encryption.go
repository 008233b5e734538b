package config

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// keysetWithin is how long the command that prints the keyset may run.
const keysetWithin = 30 * time.Second

// Keyset returns the keys with which answers are encrypted; nil if the file names none. FillIn comes before.
func (c *Config) Keyset() (*cryptstore.Keyset, error) {
	e := c.Encryption
	text, err := Secret{Env: e.Env, File: e.File}.load("encryption")
	if e.Command.Set {
		text, err = output(e.Command.Value)
	}
	if err != nil || text == nil {
		return nil, err
	}
	keyset, err := cryptstore.ParseKeyset(text)
	if err != nil {
		return nil, fmt.Errorf("encryption: %w", err)
	}
	return keyset, nil
}

// output returns what a command prints. Its error has what the command says of itself, not what it prints.
func output(command []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), keysetWithin)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second // a child of the command may keep the pipe open
	text, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("encryption: the command %s: %w", command[0], err)
	}
	return text, nil
}

func (e Encryption) isSet() bool { return e.Env.Set || e.File.Set || e.Command.Set }

// Crypt returns the options of the store that encrypts. FillIn comes before.
func (c *Config) Crypt() cryptstore.Options {
	return cryptstore.Options{Plaintext: map[string]cryptstore.Plaintext{
		"accept": cryptstore.PlaintextAccepted, "write": cryptstore.PlaintextWritten,
	}[c.Encryption.Plaintext.Value]}
}

// checkEncryption finds keys that are nowhere, or at two places, and answers of services that would be refused unless the
// services encrypt.
func (c *Config) checkEncryption(r *yamlfile.Reader) {
	e, places := c.Encryption, 0
	for _, set := range []bool{e.Env.Set, e.File.Set, e.Command.Set} {
		if set {
			places++
		}
	}
	at := cmp.Or(e.Env.At, e.File.At, e.Command.At, e.Plaintext.At)
	switch {
	case places > 1:
		r.FaultAt(at, "the keyset is at more than one place", "write one of env, file and command")
	case places == 0 && e.Plaintext.Set:
		r.FaultAt(at, "there are no keys", "write file: keyset.json too, which retrysafe keyset new keyset.json makes")
	case places == 1 && c.CompletesUpstream() && !e.Plaintext.Set:
		r.FaultAt(at, "a route has complete: upstream, whose service may write answers as plaintext",
			"write plaintext: accept too; if each such service encrypts with this keyset, write plaintext: refuse")
	}
}

package store

import (
	"fmt"
	"os"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// Encryption is the flag of commands that open a store in which answers are encrypted.
type Encryption struct {
	Encryption string `env:"RETRYSAFE_ENCRYPTION_KEYSET" placeholder:"FILE" help:"The keyset with which answers, and messages of outboxes, are encrypted, as retrysafe keyset new writes it. Default: none, and nothing is encrypted."`
}

// Wrap returns the store as it looks with the keys: answers are encrypted, and plaintext is read too. Without the flag
// it returns the store itself.
func (e Encryption) Wrap(s retrysafe.Store) (retrysafe.Store, error) {
	keys, err := e.Keys()
	if keys == nil {
		return s, err
	}
	return cryptstore.New(s, keys, cryptstore.Options{Plaintext: cryptstore.PlaintextAccepted}), nil
}

// Keys returns the keys of the flag; nil without it.
func (e Encryption) Keys() (*cryptstore.Keyring, error) {
	if e.Encryption == "" {
		return nil, nil
	}
	keyset, err := LoadKeyset(e.Encryption)
	if err != nil {
		return nil, cli.Refusef("--encryption: %w", err)
	}
	return cryptstore.NewKeyring(keyset), nil
}

// LoadKeyset reads a keyset from a file.
func LoadKeyset(path string) (*cryptstore.Keyset, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keyset, err := cryptstore.ParseKeyset(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keyset, nil
}

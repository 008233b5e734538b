// Package keysetcmd is the command retrysafe keyset, which makes and rotates the keys with which answers are encrypted.
package keysetcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// Cmd has a command for each thing to do with a keyset.
type Cmd struct {
	New     newCmd     `cmd:"" help:"Write a file with one key, which only its owner may read."`
	List    listCmd    `cmd:"" help:"List the keys by their IDs."`
	Rotate  rotateCmd  `cmd:"" help:"Add a key, which decrypts and does not encrypt yet."`
	Promote promoteCmd `cmd:"" help:"Make a key the primary one, with which all is encrypted from then on."`
	Remove  removeCmd  `cmd:"" help:"Remove a key. What it has encrypted cannot be read any more."`
}

// Help shows the usual way.
func (Cmd) Help() string {
	return `A keyset is a file with keys: all of them decrypt, and the primary one encrypts. It holds the keys in the clear.

Examples:

    retrysafe keyset new keyset.json
    retrysafe proxy --upstream http://localhost:3000 --encryption keyset.json

To rotate, put the file into force in every process after each line (SIGHUP or --watch), before the next one:

    retrysafe keyset rotate keyset.json
    retrysafe keyset promote keyset.json             # the newest key
    retrysafe keyset remove keyset.json 1234567890   # after the longest retention

The page is docs/encryption.md. The exit status is 0 if it is done, 1 if the file could not be read or written, 2 if an
argument is wrong.`
}

// keysetFile is the argument of each of the commands.
type keysetFile struct {
	File string `arg:"" help:"The file of the keyset."`
}

type newCmd struct{ keysetFile }

// Run writes a new file, and never over another one: with it the answers would be lost.
func (c newCmd) Run(*cli.Streams) error {
	keyset, err := cryptstore.NewKeyset()
	if err != nil {
		return err
	}
	text, err := keyset.JSON()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.Refusef("%s exists: without its keys what they have encrypted is lost; write retrysafe keyset rotate %s",
			c.File, c.File)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

type listCmd struct {
	keysetFile
	JSON bool `name:"json" help:"List the keys as JSON, one in a line."`
}

// row is a key in the list.
type row struct {
	ID      uint32 `json:"id"`
	Primary bool   `json:"primary"`
	Enabled bool   `json:"enabled"`
}

// Run lists the keys, the oldest first.
func (c listCmd) Run(s *cli.Streams) error {
	keyset, err := store.LoadKeyset(c.File)
	if err != nil {
		return err
	}
	t := cli.NewTable(s.Out, c.JSON, "KEY", "USE")
	for _, k := range keyset.Keys() {
		use := "decrypts"
		switch {
		case k.Primary:
			use = "encrypts and decrypts (primary)"
		case !k.Enabled:
			use = "none (disabled)"
		}
		if err := t.Add(row(k), fmt.Sprint(k.ID), use); err != nil {
			return err
		}
	}
	return t.End("")
}

type rotateCmd struct{ keysetFile }

// Run adds a key.
func (c rotateCmd) Run(s *cli.Streams) error {
	return c.change(s, func(k *cryptstore.Keyset) (*cryptstore.Keyset, string, error) {
		more, id, err := k.Add()
		return more, fmt.Sprintf("added key %d; put the file into force in every process, then write: "+
			"retrysafe keyset promote %s %d\n", id, c.File, id), err
	})
}

type promoteCmd struct {
	keysetFile
	ID uint32 `arg:"" optional:"" help:"The key's ID. Default: the newest key."`
}

// Run makes a key the primary one.
func (c promoteCmd) Run(s *cli.Streams) error {
	return c.change(s, func(k *cryptstore.Keyset) (*cryptstore.Keyset, string, error) {
		keys := k.Keys()
		if c.ID == 0 {
			c.ID = keys[len(keys)-1].ID
		}
		promoted, err := k.Promote(c.ID)
		if err != nil {
			return nil, "", cli.Refuse(err)
		}
		return promoted, fmt.Sprintf("key %d encrypts from now on; the others must stay for the longest retention\n",
			c.ID), nil
	})
}

type removeCmd struct {
	keysetFile
	ID uint32 `arg:"" help:"The key's ID."`
}

// Run removes a key.
func (c removeCmd) Run(s *cli.Streams) error {
	return c.change(s, func(k *cryptstore.Keyset) (*cryptstore.Keyset, string, error) {
		fewer, err := k.Remove(c.ID)
		if err != nil {
			return nil, "", cli.Refuse(err)
		}
		return fewer, "", nil
	})
}

// change replaces the file as a whole, so that a proxy that reads it gets the one or the other, and then says what was
// done. The new file is as the old one: a proxy that may not read it refuses the next reload, and does not start again.
func (f keysetFile) change(s *cli.Streams,
	by func(*cryptstore.Keyset) (next *cryptstore.Keyset, says string, err error),
) error {
	known, err := store.LoadKeyset(f.File)
	if err != nil {
		return err
	}
	next, says, err := by(known)
	if err != nil {
		return err
	}
	text, err := next.JSON()
	if err != nil {
		return err
	}
	file, err := filepath.EvalSymlinks(f.File) // the link stays one
	if err != nil {
		return err
	}
	written, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = written.Write(text)
	if err = errors.Join(err, makeLike(written, file), written.Sync(), written.Close()); err == nil {
		err = os.Rename(written.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(written.Name()))
	}
	_, err = fmt.Fprint(s.Out, says)
	return err
}

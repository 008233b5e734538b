//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// The keyset is that of the file, of the variable, or what the command prints, each time anew, so that a reload puts a
// rotated one into force. Errors name the place and have nothing of the keyset.
//
// Seen to fail with Command, and with Env, left out of Keyset, and with what the command has printed in its error.
func TestWhereTheKeysetIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keyset.json")
	t.Setenv("SHOP_KEYSET", "")
	t.Setenv("SHOP_KEYSET_FILE", file)
	for range 2 { // the second time another one
		keyset, err := cryptstore.NewKeyset()
		if err != nil {
			t.Fatal(err)
		}
		text, err := keyset.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("SHOP_KEYSET", string(text))
		for _, at := range []string{"file: " + file, "env: SHOP_KEYSET", `command: [sh, -c, 'cat "$SHOP_KEYSET_FILE"']`} {
			c := mustParse(t, "upstream: http://x\nencryption: {"+at+"}\n")
			if err := c.FillIn(); err != nil {
				t.Fatal(err)
			}
			got, err := c.Keyset()
			if err != nil || got == nil || got.String() != keyset.String() {
				t.Errorf("%s: got %v, %v; want %v", at, got, err, keyset)
			}
		}
	}
	for at, says := range map[string]string{
		"file: " + file + ".not": "keyset.json.not", "env: SHOP_KEYSET_NOT": "SHOP_KEYSET_NOT",
		"command: [sh, -c, 'echo hush; echo no key >&2; exit 3']": "no key", "command: [echo, hush]": "not the JSON of a Tink keyset",
		"command: [/no/such/program]": "/no/such/program",
	} {
		c := mustParse(t, "upstream: http://x\nencryption: {"+at+"}\n")
		if err := c.FillIn(); err != nil {
			t.Fatal(err)
		}
		got, err := c.Keyset()
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "encryption") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, %v", at, got, err)
		}
	}
}

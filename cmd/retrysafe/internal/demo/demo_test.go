package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Seen to fail with the rows not counted: each intent taken for charged once.
func TestWithoutProxyTheChargesAreWrong(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := Run(t.Context(), Options{JSON: true, WithoutProxy: true, Out: &out})
	if !errors.Is(err, ErrWrong) {
		t.Fatalf("error %v, want ErrWrong", err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	if r.Right || len(r.Wrong) == 0 {
		t.Errorf("the verdict is right: %+v", r)
	}
	want := []int{20, 2, 2, 2, 3, 3, 2, 3, 0} // a row for each request that has reached the API
	for i, s := range r.Scenes {
		if s.Charges != want[i] || s.Right {
			t.Errorf("%s: %d charges, right: %v; want %d, and wrong", s.Name, s.Charges, s.Right, want[i])
		}
	}
}

func TestStoryFitsTheScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Run(t.Context(), Options{WithoutProxy: true, Out: &out}); !errors.Is(err, ErrWrong) {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colours, though Options.Colour is not set")
	}
}

// Seen to fail with the directory left behind.
func TestNothingStays(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	for name, o := range map[string]Options{
		"a proxy that does not start": {Binary: "/does/not/exist"},
		"a proxy that ends at once":   {Binary: "/bin/false"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Out = &bytes.Buffer{}
			if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "proxy") {
				t.Errorf("error %v, want one that speaks of the proxy", err)
			}
			if left, _ := os.ReadDir(temporary); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if err := Run(ctx, Options{Out: &bytes.Buffer{}}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("error %v, want the cause", err)
	}
	if left, _ := os.ReadDir(temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKeepNeedsAnEmptyDirectory(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Options{Keep: full, Out: &bytes.Buffer{}}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("error %v, want ErrNotEmpty", err)
	}
	if _, err := os.Stat(filepath.Join(full, "mine")); err != nil {
		t.Errorf("the user's file is gone: %v", err)
	}
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{w: &out, colour: true}
	s.say("%s", strings.Repeat("word ", 40))
	s.got(reply{status: 201, body: bytes.Repeat([]byte("x"), 200)})
	for line := range strings.Lines(out.String()) {
		plain := strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "", "\n", "").Replace(line)
		if n := utf8.RuneCountInString(plain); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(out.String(), "\x1b[32m") {
		t.Error("no colours, though they were asked for")
	}
}

package recipes

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// shared is the server of all tests.
var shared servers.SharedPostgres

// TestPageSaysWhatTheServerAnswers runs the page. A statement without an answer succeeds and returns no row. Seen to
// fail with any answer of the page edited, each at its line.
func TestPageSaysWhatTheServerAnswers(t *testing.T) {
	recipes := readPage(t)
	if len(recipes) == 0 {
		t.Fatal("the page has no recipes")
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			cook(t, r)
		})
	}
}

// cook runs a recipe in a fresh database.
func cook(t *testing.T, r *recipe) {
	pg := shared.Get(t)
	direct := pg.Database(t)
	url := direct
	if r.bouncer {
		url = servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"}).Through(t, direct)
	}
	watcher, err := pgx.Connect(context.Background(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close(context.Background())
	sessions := make(map[string]*session)
	for _, step := range r.steps {
		s := sessions[step.who]
		if s == nil {
			s = connect(t, url)
			sessions[step.who] = s
		}
		got := s.say(t, watcher, step.sql)
		if !step.agrees(got) {
			t.Errorf("%s:%d: %s: %s\nthe server answers\n--> %s\nthe page says\n--> %s", filepath.Base(pagePath), step.line,
				step.who, step.sql, strings.Join(got, "\n--> "), strings.Join(step.answer, "\n--> "))
		}
	}
	for who, s := range sessions {
		if s.waiting != nil {
			t.Errorf("at the end %s still waits", who)
		}
	}
}

// done matches the answer of a statement that succeeds, returns no row and, if it is about rows, has affected some.
var done = regexp.MustCompile(`^[A-Z]+( [A-Z]+)*( 0)?( [1-9]\d*)?$`)

func (s step) agrees(got []string) bool {
	if len(s.answer) == 0 {
		return len(got) == 1 && done.MatchString(got[0]) && !strings.HasSuffix(got[0], " 0")
	}
	return slices.Equal(got, s.answer)
}

// TestPageLinksLead checks the targets of the page's links. Seen to fail with a file's name and with a heading
// changed on the page.
func TestPageLinksLead(t *testing.T) {
	text, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		anchors[anchor(heading[1])] = true
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if inside, ok := strings.CutPrefix(link[1], "#"); ok {
			if !anchors[inside] {
				t.Errorf("no heading for #%s", inside)
			}
		} else if _, err := os.Stat(filepath.Join(filepath.Dir(pagePath), link[1])); err != nil {
			t.Error(err)
		}
	}
}

// anchor returns GitHub's anchor of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

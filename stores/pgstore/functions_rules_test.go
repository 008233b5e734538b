package pgstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

// The rules that hold for the procedures of MySQL and MariaDB too, under every isolation.
func TestRulesOfFunctions(t *testing.T) {
	t.Parallel()
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			direct, _ := setting{isolation: isolation}.place(t)
			role, url := stranger(t, direct, "service")
			owner := openTestAt(t, direct, role)
			sqlfunctions.Rules(t, sqlfunctions.Server{
				Service: openSQL(t, url),
				Text:    textOf,
				Refusal: refusalOf,
				Age:     func(t *testing.T, d time.Duration) { age(t, owner, d) },
			})
		})
	}
}

// openTestAt returns a store in a database, in which a role has what a service needs and the table charges.
func openTestAt(t *testing.T, url, role string) *Store {
	t.Helper()
	s := openOn(t, openPool(t, url), Options{})
	if _, err := Migrate(t.Context(), s.pool, MigrateOptions{ServiceRole: role}); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "CREATE TABLE charges (id text)")
	execute(t, s, `GRANT SELECT, INSERT ON charges TO "`+role+`"`)
	return s
}

// textOf is the statement of a call.
func textOf(c sqlfunctions.Call) (text string, args []any) {
	types := map[string][]string{
		"claim": {"text", "text", "bytea"}, "extend": {"text", "interval"}, "complete": {"text", "text", "integer"},
		"fail": {"text", "text", "integer"},
	}[c.Verb]
	var list []string
	add := func(name, kind string, value any) {
		if d, is := value.(sqlfunctions.Seconds); is {
			value, kind = fmt.Sprintf("%f seconds", float64(d)), "text::interval"
		}
		args = append(args, value)
		list = append(list, fmt.Sprintf("%s$%d::%s", name, len(args), kind))
	}
	for i, a := range c.Args {
		kind := "text"
		if i < len(types) {
			kind = types[i]
		}
		add("", kind, a)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		switch value := c.Options[name].(type) {
		case []any:
			add(name+" => ", "text[]", value)
		case bool:
			add(name+" => ", "boolean", value)
		default:
			add(name+" => ", "text", value)
		}
	}
	return "SELECT * FROM retrysafe." + c.Verb + "(" + strings.Join(list, ", ") + ")", args
}

package mysqlstore

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

// The rules that hold for the SQL functions of PostgreSQL too, under every isolation.
func TestRulesOfProcedures(t *testing.T) {
	t.Parallel()
	for name, settings := range isolations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRules(t, openShop(t, settings))
		})
	}
}

func checkRules(t *testing.T, s *shop) {
	sqlfunctions.Rules(t, sqlfunctions.Server{
		Service: s.db,
		Text: func(c sqlfunctions.Call) (string, []any) {
			args := slices.Clone(c.Args)
			switch c.Verb {
			case "complete", "fail", "claim":
				args = append(args, make([]any, 3-len(args))...)
				args = append(args, optionsOf(t, c.Options))
			}
			for i, a := range args {
				if d, is := a.(sqlfunctions.Seconds); is {
					args[i] = float64(d)
				}
			}
			marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
			return inDatabase("CALL {{"+c.Verb+"}} ("+marks+")", s.owner.options.Database), args
		},
		Refusal: func(err error) (state, text string) {
			var my *mysql.MySQLError
			if !errors.As(err, &my) {
				return "", ""
			}
			if len(my.Message) > 128 {
				t.Errorf("the server cuts this message after 128 characters: %s", my.Message)
			}
			return string(my.SQLState[:]), my.Message
		},
		Age: func(t *testing.T, d time.Duration) { age(t, s.owner, d) },
	})
}

// optionsOf is the JSON object that a procedure takes.
func optionsOf(t *testing.T, o sqlfunctions.Options) any {
	if o == nil {
		return nil
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

package pgstore

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// The steps of operations, each with a statement. The statements of a batch run in this order: what ends attempts comes
// first, so that a claim of the same key in the same batch sees it.
const (
	stepComplete storekit.Step = iota
	stepExtend
	stepRelease
	stepCheckpoint
	stepArchive // what is left of an expired record
	stepWatch   // marks the row, so that the end of the attempt is notified
	stepFind
	stepInsert  // takes a key that has no record
	stepAcquire // takes a key if the contract allows it
	stepCount   = iota
)

// stepNames are the files of the statements.
var stepNames = [stepCount]string{
	"complete", "extend", "release", "checkpoint", "archive", "watch", "find", "insert", "acquire",
}

// takesKey reports whether the rows of the statement are keys and nothing more.
func takesKey(s storekit.Step) bool { return s == stepArchive || s == stepWatch || s == stepFind }

// statements are the texts of package sql, for one schema.
type statements struct {
	steps [stepCount]statement

	plannerSettings, commitAsync, markTx, isMarked, stateOf string
	hold, markEnded, endLease                               string
	inspect, purge, stats, bytes, pendingAges, risks        string
	lock, reopen                                            string
	searchAll, searchByTag, searchByID, searchSettings      string
	searchByState, searchRecent, searchByScope              string
	lockProgress, noteWriters, indexStates, indexEnded      string
	scopedBelow, trimBlocks, indexScopes, reviewBlocks      string
	sightings                                               string
	addSightings                                            statement
	sweepClaims, sweepOlder, oldestDue                      string
	addDays, pastDays, takeSweepLock, releaseSweepLock      string
	addMissingDay                                           string
}

// statement is a text that takes rows as its arguments: a column of each as an array, or the values of one.
type statement struct{ many, one string }

// schemaName is what a schema may be called: it becomes part of statements, and of the name of a notification channel.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// checkSchema returns the name of a schema, or the default if it is empty, and an error if it cannot be one.
func checkSchema(name string) (string, error) {
	if name == "" {
		return defaultSchema, nil
	}
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return "", fmt.Errorf("pgstore: schema %q: use up to 40 lower-case letters, digits and underscores, "+
			"not beginning with a digit or with pg_", name)
	}
	if isReserved(name) {
		return "", fmt.Errorf("pgstore: schema %q: PostgreSQL reserves the word; use another name", name)
	}
	return name, nil
}

// channel is the notification channel for the ends of attempts.
func channel(schema string) string { return "retrysafe_" + schema }

// inSchema fills the names of a schema into a statement.
func inSchema(text, schema string) string {
	return strings.NewReplacer(
		"{{schema}}", schema,
		"{{schema_text}}", "'"+schema+"'",
		"{{channel}}", "'"+channel(schema)+"'",
	).Replace(text)
}

// sqlFile is the text of a file in the folder sql.
func sqlFile(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // a statement without its file: any test finds that
	}
	return string(text)
}

func newStatements(schema string) *statements {
	text := func(name string) string { return inSchema(sqlFile(name), schema) }
	search := func(records string) string {
		order := "c.place DESC"
		if records == "search_by_scope" { // the place is that of a block
			order += ", c.first_fence DESC"
		}
		return strings.NewReplacer("{{records}}", strings.TrimSpace(text(records)), "{{order}}", order).Replace(text("search"))
	}
	q := &statements{
		plannerSettings: text("planner_settings"), commitAsync: text("commit_async"),
		markTx: text("mark_tx"), isMarked: text("is_marked"), stateOf: text("state_of"),
		hold: text("hold"), markEnded: text("mark_ended"), endLease: text("end_lease"),
		lock: text("lock"), reopen: text("reopen"),
		inspect: text("inspect"), purge: text("purge"), stats: text("stats"), bytes: text("bytes"),
		pendingAges: text("pending_ages"), risks: text("risks"),
		searchAll: search("search_all"), searchByTag: search("search_by_tag"), searchByID: search("search_by_id"),
		searchByState: search("search_by_state"), searchRecent: search("search_recent"), searchByScope: search("search_by_scope"),
		searchSettings: text("search_settings"),
		lockProgress:   text("lock_progress"), noteWriters: text("note_writers"),
		indexStates: text("index_states"), indexEnded: text("index_ended"),
		scopedBelow: text("scoped_below"), trimBlocks: text("trim_blocks"),
		indexScopes: text("index_scopes"), reviewBlocks: text("review_blocks"),
		sightings: text("sightings"), addSightings: newStatement(text("add_sightings")),
		sweepClaims: text("sweep_claims"), sweepOlder: text("sweep_older"), oldestDue: text("oldest_due"),
		addDays: text("add_days"), pastDays: text("past_days"), addMissingDay: text("add_missing_day"),
		takeSweepLock: text("take_sweep_lock"), releaseSweepLock: text("release_sweep_lock"),
	}
	for i, name := range stepNames {
		q.steps[i] = newStatement(text(name))
	}
	return q
}

// columns is where a statement takes its rows from: {{p: name type, name type}}.
var columns = regexp.MustCompile(`(?s)\{\{p: (.*?)\}\}`)

// newStatement makes both forms of a text: rows from arrays, and one row, whose values the planner sees.
func newStatement(text string) statement {
	form := func(column func(i int, name, typ string) string, around string) string {
		return columns.ReplaceAllStringFunc(text, func(found string) string {
			var names, values []string
			for i, c := range strings.Split(columns.FindStringSubmatch(found)[1], ",") {
				name, typ, _ := strings.Cut(strings.TrimSpace(c), " ")
				names, values = append(names, name), append(values, column(i+1, name, typ))
			}
			return strings.NewReplacer("NAMES", strings.Join(names, ", "), "VALUES", strings.Join(values, ", ")).Replace(around)
		})
	}
	return statement{
		many: form(func(i int, _, typ string) string {
			return fmt.Sprintf("$%d::%s[]", i, typ)
		}, "unnest(VALUES) AS p (NAMES)"),
		one: form(func(i int, name, typ string) string {
			return fmt.Sprintf("$%d::%s AS %s", i, typ, name)
		}, "(SELECT VALUES) AS p"),
	}
}

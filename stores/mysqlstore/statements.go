package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statement is a text that takes rows of values, perhaps more than once.
type statement struct {
	parts []string // around the rows
	row   string   // with a question mark for each value
	// prepare says that sessions of the Store prepare it, because it is executed often: that saves the server half of its
	// time. Repeating a row in it changes nothing.
	prepare bool
	// prepareOne says that they prepare it for one row, because an answer takes twice its length as a literal.
	prepareOne bool
	alone      bool // it takes one row
	calls      bool // it calls a procedure, which fails if it has changed nothing; it returns no number of rows
}

// statements are the texts of package sql, for one database.
type statements struct {
	lock, find, insert, write, archive, addResults, addSteps, dropSteps, look, stateOf *statement
	insertTagged, setTags, addTags, existing, addSightings                             *statement
	inspect, inspectSteps, inspectSightings                                            *statement
	listFrom, list, stats, bytes, pendingAges                                          *statement
	dueClaims, dueOlder, sweepClaims, sweepOlder, deleteClaims, deleteOlder, lookLater *statement
	addDays, pastDays, dayIsNeeded, dropDay                                            *statement
	purgeOlder, purgeSteps, countOlder, dropResults                                    *statement
	complete, extend, release                                                          *statement
	progress, setProgress, lastBlock, trimBlocks, nextRecords, recordsBetween          *statement
	noteStates, dropState, nextUnfinished, lockEnded                                   *statement
	addToBlock, nextBlocks, findBlocks, endOfBlock, writeBlock, dropBlock              *statement
	kept                                                                               [2]kept
}

// kept is a table of what is kept beside records, and the statements that find and delete rows whose record is gone.
type kept struct{ next, orphans, deletion *statement }

// clock is the server's time in microseconds since 1970, when the statement began. It does not depend on time zones.
const clock = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

// lateClock is the time at the moment at which a row is read. It counts from when the statement began, so that it
// depends neither on time zones nor on a session that has set its timestamp, as one of a user's may have.
const lateClock = clock + " + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))"

// tables are the names that statements use, without the prefix.
var tables = []string{"claims", "older", "steps", "results", "tags", "sightings", "blocks", "progress", "migrations"}

// Procedures that a Store calls, that a service calls, and that only these call.
var (
	storeProcedures   = []string{"add_days", "store_complete"}
	serviceProcedures = []string{
		"claim", "extend", "step", "save_step", "complete", "fail", "release", "child_key",
	}
	innerProcedures = []string{
		"hash_key", "read_lease", "lease_lost", "interrupted", "ask_transaction", "check_options", "read_seconds", "read_tags",
		"make_meta", "read_meta", "end_attempt", "end_http", "claim_record",
	}
)

const prefix = "retrysafe_"

// databaseName is what a database may be called: it becomes part of statements.
var databaseName = regexp.MustCompile(`^[0-9A-Za-z_$-]{1,64}$`)

// checkDatabase returns the name of a database, or that of the selected one if it is empty.
func checkDatabase(ctx context.Context, q queryer, name string) (string, error) {
	if name == "" {
		var selected sql.NullString
		if err := q.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&selected); err != nil {
			return "", fmt.Errorf("mysqlstore: connect: %w", explain(err))
		}
		if name = selected.String; name == "" {
			return "", fmt.Errorf("mysqlstore: no database is selected: name it in the data source name, or in Options.Database")
		}
	}
	if !databaseName.MatchString(name) {
		return "", fmt.Errorf("mysqlstore: database %q: use up to 64 letters, digits, underscores, hyphens and "+
			"dollar signs", name)
	}
	return name, nil
}

// inDatabase fills names into a statement.
func inDatabase(text, database string) string {
	var pairs []string
	var texts []string
	others := []string{"records", "activity", "change_table"}
	for _, name := range slices.Concat(others, tables, storeProcedures, serviceProcedures, innerProcedures) {
		pairs = append(pairs, "{{"+name+"}}", "`"+database+"`."+prefix+name)
	}
	for _, name := range tables {
		texts = append(texts, "'"+prefix+name+"'")
	}
	pairs = append(pairs,
		"{{database_text}}", "'"+database+"'",
		"{{results_text}}", "'"+prefix+"results'",
		"{{tables_text}}", strings.Join(texts, ", "),
		"{{own_tags}}", "CASE WHEN c.tags_of = c.first_fence THEN c.tags END",
		"{{now}}", clock,
		"{{late}}", lateClock,
	)
	return strings.NewReplacer(pairs...).Replace(text)
}

// sqlFile is the text of a file in the folder sql.
func sqlFile(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // a statement without its file: any test finds that
	}
	return string(bytes.TrimSpace(text))
}

// comment is a line that explains a statement to readers of its file.
var comment = regexp.MustCompile(`(?m)^--.*\n`)

// rowsOf is where a statement takes its rows from, and what a row looks like.
var rowsOf = regexp.MustCompile(`\{\{rows: (.*?)\}\}`)

// newStatement returns the statement of a file. Pairs are replaced in it first.
func newStatement(database, name string, pairs ...string) *statement {
	text := comment.ReplaceAllString(sqlFile(name), "")
	text = inDatabase(strings.NewReplacer(pairs...).Replace(text), database)
	s := &statement{parts: rowsOf.Split(text, -1)}
	if found := rowsOf.FindStringSubmatch(text); found != nil {
		s.row = found[1]
	}
	return s
}

func newStatements(database string) *statements {
	plain := func(name string, pairs ...string) *statement { return newStatement(database, name, pairs...) }
	often := func(name string, pairs ...string) *statement {
		s := newStatement(database, name, pairs...)
		s.prepare = true
		return s
	}
	alone := func(name string, pairs ...string) *statement {
		s := newStatement(database, name, pairs...)
		s.prepareOne, s.alone = true, true
		return s
	}
	calling := func(name string) *statement {
		s := alone(name)
		s.calls = true
		return s
	}
	single := func(name string) *statement {
		s := newStatement(database, name)
		s.prepareOne = true
		return s
	}
	besides := func(table string) kept {
		of := []string{"{{kept}}", "{{" + table + "}}"}
		return kept{plain("next_kept", of...), plain("orphans", of...), alone("drop_kept", of...)}
	}
	return &statements{
		lock: often("lock"), find: often("find"), write: often("write"), addResults: single("add_results"),
		insert:       often("insert", "{{tag_columns}}", "", "{{tag_values}}", ""),
		insertTagged: often("insert", "{{tag_columns}}", ", tags, tags_of", "{{tag_values}}", ", ?, fence"),
		setTags:      plain("set_tags"), addTags: plain("add_tags"), kept: [2]kept{besides("tags"), besides("sightings")},
		existing: plain("existing"), addSightings: plain("add_sightings"), inspectSightings: plain("inspect_sightings"),
		archive: plain("archive"), addSteps: plain("add_steps"), dropSteps: alone("drop_steps"),
		look: plain("look"), stateOf: plain("state_of"),
		inspect: plain("inspect"), inspectSteps: plain("inspect_steps"), listFrom: plain("list_from"), list: plain("list"),
		stats: plain("stats"), bytes: plain("bytes"), pendingAges: plain("pending_ages"),
		progress: plain("progress"), setProgress: plain("set_progress"), lastBlock: plain("last_block"),
		trimBlocks: plain("trim_blocks"), nextRecords: plain("next_records"), recordsBetween: plain("records_between"),
		noteStates: plain("note_states"), dropState: alone("drop_state"), nextUnfinished: plain("next_unfinished"),
		lockEnded: plain("lock_ended"), addToBlock: plain("add_to_block"), nextBlocks: plain("next_blocks"),
		findBlocks: plain("find_blocks"), endOfBlock: plain("end_of_block"), writeBlock: plain("write_block"), dropBlock: alone("drop_block"),
		dueClaims: plain("due_claims"), dueOlder: plain("due_older"),
		sweepClaims: plain("sweep_claims"), sweepOlder: plain("sweep_older"),
		deleteClaims: alone("delete_claims"), deleteOlder: alone("delete_older"), lookLater: plain("look_later"),
		complete: calling("store_complete"), extend: alone("extend"), release: alone("release"),
		addDays: plain("add_days"), pastDays: plain("past_days"),
		dayIsNeeded: plain("day_is_needed"), dropDay: plain("drop_day"),
		purgeOlder: plain("purge_older"), countOlder: alone("count_older"), dropResults: alone("drop_results"),
		purgeSteps: alone("purge_steps", "{{prefix_length}}", strconv.Itoa(len(retrysafe.AuditStepPrefix)),
			"{{prefix}}", string(appendLiteral(nil, retrysafe.AuditStepPrefix))),
	}
}

// filled is the statement with a text in the place of a name.
func (s *statement) filled(name, text string) *statement {
	parts := make([]string, len(s.parts))
	for i, p := range s.parts {
		parts[i] = strings.ReplaceAll(p, name, text)
	}
	return &statement{parts: parts, row: s.row}
}

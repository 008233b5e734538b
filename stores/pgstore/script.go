package pgstore

import (
	"fmt"
	"strconv"
	"strings"
)

// ScriptOptions of Script. ScriptOptions{} works.
type ScriptOptions struct {
	// Schema to make. Default "retrysafe".
	Schema string
	// Owner is the role that everything will belong to: it migrates, and drops the partitions of past days. It must
	// exist. A schema that another role has made is handed over, which takes a superuser. Default: the role that runs
	// the script.
	Owner string
	// Role gets what a Store needs: see Grants. It must exist. Default: no role gets anything.
	Role string
	// ServiceRole gets what a service needs that calls the SQL functions: see ServiceGrants. It must exist. Default: no
	// role gets anything.
	ServiceRole string
}

// Script returns SQL that makes the schema or brings it up to date, as Migrate does, in one transaction. It is for
// people who review such changes first, or whose database lets only an administrator make tables. Run it with psql,
// as a superuser or a member of Owner. It skips the migrations that have been applied, and may be run again. It
// returns an error if an option cannot be a name.
func Script(o ScriptOptions) (string, error) {
	schema, err := checkSchema(o.Schema)
	if err != nil {
		return "", err
	}
	o.Schema = schema
	all, err := Migrations(o.Schema)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- Schema %s of Retrysafe, version %d.\nBEGIN;\n\n", o.Schema, len(all))
	if o.Owner != "" {
		owner, err := roleName(o.Owner)
		if err != nil {
			return "", err
		}
		text := strings.NewReplacer("{{owner}}", owner, "{{owner_text}}", literal(o.Owner))
		b.WriteString(text.Replace(inSchema(sqlFile("owner"), o.Schema)) + "\n")
	}
	b.WriteString(prepareSQL(o.Schema))
	for _, m := range all {
		fmt.Fprintf(&b, "\n-- %s\nDO $script$ BEGIN\n"+
			"IF NOT EXISTS (SELECT FROM %s.migrations WHERE version = %d) THEN\nEXECUTE $migration$\n%s",
			m.Name, o.Schema, m.Version, m.SQL)
		fmt.Fprintf(&b, "INSERT INTO %s.migrations (version, name, oldest) VALUES (%d, '%s', %d);\n"+
			"$migration$;\nEND IF;\nEND $script$;\n",
			o.Schema, m.Version, m.Name, m.Oldest)
	}
	addDays := strings.ReplaceAll(inSchema(sqlFile("add_days"), o.Schema), "$1", strconv.Itoa(daysAhead))
	fmt.Fprintf(&b, "\n%s;\n", strings.TrimSpace(addDays))
	if o.Owner != "" {
		b.WriteString("RESET ROLE;\n")
	}
	grants, err := allGrants(o.Schema, o.Role, o.ServiceRole)
	if err != nil {
		return "", err
	}
	if grants != "" {
		b.WriteString("\n" + grants)
	}
	b.WriteString("\nCOMMIT;\n\n" +
		"-- If the tables are larger than 64 MB, keys are found by their ID in all scopes once these have run, each alone:\n")
	for _, table := range []string{"claims", "older"} {
		fmt.Fprintf(&b, "-- %s;\n", inSchema(fmt.Sprintf(createIndex, table), o.Schema))
	}
	return b.String(), nil
}

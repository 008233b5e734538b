package mysqlstore

import (
	"fmt"
	"strings"
)

// Grants returns the statements that give an account what a Store needs, and no more: it can use the tables, but not
// make or drop any. role is the name of an account or a role, with the host behind an @ if it has one: "app",
// "app@10.0.0.%". Execute them again after each migration; doing so twice changes nothing. It returns an error if
// database or role cannot be a name.
//
// A Store with such an account sweeps records, and leaves the partitions of past days to a sweep by one that may
// alter and drop tables.
func Grants(database, role string) (string, error) { return grantsIn("grants", database, role) }

// ServiceGrants returns the statements that give an account what a service needs that calls the procedures, such as
// retrysafe_complete: it can claim keys whose scope and ID it knows, and end the attempts whose lease tokens it has. It
// can read and write no table, and so no answer of another service. user is the name of an account or a role, as for
// Grants. Execute them again after each migration, because one that replaces a procedure drops the rights to it; doing
// so twice changes nothing. It returns an error if database or user cannot be a name.
func ServiceGrants(database, user string) (string, error) {
	return grantsIn("service_grants", database, user)
}

// grantsIn fills a database and an account into a file of grants.
func grantsIn(file, database, role string) (string, error) {
	if !databaseName.MatchString(database) {
		return "", fmt.Errorf("mysqlstore: %q cannot be the name of a database", database)
	}
	name, err := roleName(role)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(inDatabase(sqlFile(file), database), "{{role}}", name) + "\n", nil
}

// allGrants returns the Grants of a role and the ServiceGrants of another one. Roles that are empty get nothing.
func allGrants(database, role, serviceRole string) (all string, err error) {
	if role != "" {
		if all, err = Grants(database, role); err != nil {
			return "", err
		}
	}
	if serviceRole == "" {
		return all, nil
	}
	more, err := ServiceGrants(database, serviceRole)
	return all + more, err
}

// roleName quotes the name of an account. Without a host it is that of a role, or of an account for any host.
func roleName(role string) (string, error) {
	name, host, hasHost := strings.Cut(role, "@")
	if name == "" || len(name) > 80 || len(host) > 255 || strings.ContainsAny(role, "'`\"\\\x00\r\n") ||
		hasHost && host == "" || strings.EqualFold(name, "public") {
		return "", fmt.Errorf("mysqlstore: %q cannot be the name of an account or a role", role)
	}
	if hasHost {
		return "'" + name + "'@'" + host + "'", nil
	}
	return "'" + name + "'", nil
}

// Package store opens a store from its URL or path, and has the commands about stores as a whole: store, migrate, check
// and sweep. Reading a URL opens nothing, and no error shows a password.
//
//	url.go              Ref: a store that has not been opened; paths of SQLite files
//	postgres.go         the URL of a PostgreSQL database and its parameters
//	postgres_errors.go  what to do about an error of the database
//	mysql.go            the URL of a database of MySQL or MariaDB, and its errors
//	schema.go           the migrations of both
//	redis.go, nats.go, dynamodb.go  the URLs of other servers
//	shards.go           the URLs of several stores as one, and of a move
//	server.go           what the URLs of servers share
//	unreachable.go      whether a server is away, and waiting for it
//	password.go         how URLs are printed
//
//	store.go            the command store; move*.go: the stages of a move, what each of them needs, what the stores say
//	migrate.go          the command migrate
//	check*.go           the command check: rules, latencies, the report
//	sweep.go            the command sweep
//
// # Design
//
// stores/storetest has the whole contract, for an empty store whose clock a test may move. The command check has the
// sentences that can be tested beside the users of a store within seconds, in a scope of its own. The tests of stores
// prove that an implementation is right; the command finds what is wrong with a deployment: a proxy between the program
// and the server that repeats or reorders calls, a replica that answers reads, a clock that jumps, settings that lose
// claims.
package store

// Cmd has a command for each thing to do with stores.
type Cmd struct {
	Move moveCmd `cmd:"" help:"Move keys to another store while proxies run: explain the stages, and check each before it begins."`
}

// Help shows the usual way.
func (Cmd) Help() string {
	return `Keys move from one store to another, or to more shards, without a gap. Every process goes through the same
stages, and all processes are at one stage or at two that follow each other.

Examples:

    # what there is to do
    retrysafe store move --from postgres://app@db/shop --to mysql://app@sql/shop

    # may the processes go on to stage 2?
    retrysafe store move --from postgres://app@db/shop --to mysql://app@sql/shop --stage 2

    # two shards become three
    retrysafe store move --from 'shards:?a=redis://r1&b=redis://r2' \
        --to 'shards:?a=redis://r1&b=redis://r2&c=redis://r3'

https://github.com/retrysafe/retrysafe/blob/main/docs/moving-stores.md explains each stage.

The exit status is 0 if the processes may go on, 1 if a check failed: they must not, 2 if flags are wrong.`
}

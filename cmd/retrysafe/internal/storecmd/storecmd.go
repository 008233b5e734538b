// Package storecmd is the command retrysafe store, for operators who change where keys are kept.
//
//	storecmd.go  the command line
//	move.go      the stages of a move, and what each of them needs
//	checks.go    what the two stores say
package storecmd

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

// Command release packs and releases the modules of this repository: all public modules together, under one version.
//
//	go run ./internal/release pack DIR [VERSION]
//
// It runs in the root of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

const usage = `usage, in the root of the repository:
  release pack DIR [VERSION]    write every public module as it would be released into DIR, a module proxy in files;
                                the last line of the output is the version`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch command, args := args[0], args[1:]; {
	case command == "pack" && len(args) == 1:
		return pack(ctx, ".", args[0], "")
	case command == "pack" && len(args) == 2:
		return pack(ctx, ".", args[0], args[1])
	}
	return errors.New(usage)
}

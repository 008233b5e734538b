// Command release packs and releases the modules of this repository: all public modules together, under one version.
//
//	go run ./internal/release pack DIR [VERSION]
//	go run ./internal/release make [-n] [-key FILE] VERSION
//	go run ./internal/release licenses
//
// It runs in the root of the repository. RELEASING.md says how a release is made.
//
// # Design
//
//   - The go.mod files in the checkout are not the released ones. They replace sibling modules, so that each module
//     builds, is tidied and is linted without the workspace. This program removes the replace lines and adds the
//     version and the hashes; a test uses the result as a user would.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

const usage = `usage, in the root of the repository:
  release pack DIR [VERSION]    write every public module as it would be released into DIR, a module proxy in files;
                                the last line of the output is the version
  release make [-n] [-key FILE] VERSION
                                make the release: tags, and in dist/VERSION binaries and packages with checksums,
                                which the SSH key in FILE signs; -n: a dry run. The Python
                                named in $PYTHON has the modules build and hatchling
  release licenses              write ` + licensesFile + `, which "retrysafe version --licenses" prints`

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
	switch {
	case len(args) == 2 && args[0] == "pack":
		return printPack(ctx, args[1], "")
	case len(args) == 3 && args[0] == "pack":
		return printPack(ctx, args[1], args[2])
	case len(args) >= 2 && args[0] == "make":
		r := &release{checkout: ".", targets: targets, out: os.Stdout, python: cmp.Or(os.Getenv("PYTHON"), "python3")}
		flags := flag.NewFlagSet("make", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.BoolVar(&r.dryRun, "n", false, "")
		flags.StringVar(&r.key, "key", "", "")
		if err := flags.Parse(args[1:]); err != nil || flags.NArg() != 1 {
			return errors.New(usage)
		}
		r.version = flags.Arg(0)
		if r.key != "" { // ssh-keygen runs in another folder
			var err error
			if r.key, err = filepath.Abs(r.key); err != nil {
				return err
			}
		}
		return r.make(ctx)
	case len(args) == 1 && args[0] == "licenses":
		text, err := licenses(ctx, ".")
		if err != nil {
			return err
		}
		return writeFile(licensesFile, []byte(text))
	}
	return errors.New(usage)
}

func printPack(ctx context.Context, out, version string) error {
	version, _, err := pack(ctx, ".", out, version)
	if err == nil {
		fmt.Println(version)
	}
	return err
}

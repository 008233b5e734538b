// Command mutate makes one small change to memstore at a time and reports whether the tests notice. A change that no
// test notices is a survivor: either a rule is missing in stores/storetest, or the change makes no difference, and
// then equivalent.txt says why. Run it from the top of the repository: go run ./internal/testing/mutate.
//
// It exits with 1 if there is a survivor without an explanation, or an explanation without a survivor.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

const target = "stores/memstore"

//go:embed equivalent.txt
var equivalentText string

func main() {
	only := flag.String("only", "", "test only mutants whose description contains this")
	list := flag.Bool("list", false, "list the mutants without testing them")
	flag.Parse()
	if err := run(*only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(only string, list bool) error {
	known, err := parseEquivalents(equivalentText)
	if err != nil {
		return err
	}
	mutants, err := mutantsOf(target)
	if err != nil {
		return err
	}
	stale := known.without(mutants)
	mutants = selected(mutants, only)
	if list {
		for _, m := range mutants {
			fmt.Println(m)
		}
		return nil
	}
	open, err := hunt(mutants, known)
	if err != nil {
		return err
	}
	for _, e := range stale {
		fmt.Printf("equivalent.txt explains a change that no longer exists:\n%v\n", e)
	}
	if open > 0 || len(stale) > 0 {
		return fmt.Errorf("%d unexplained survivors, %d stale explanations", open, len(stale))
	}
	return nil
}

// selected returns the mutants whose description contains text.
func selected(mutants []mutant, text string) []mutant {
	var some []mutant
	for _, m := range mutants {
		if strings.Contains(m.String(), text) {
			some = append(some, m)
		}
	}
	return some
}

// hunt tests the mutants, prints the results, and returns the number of unexplained survivors.
func hunt(mutants []mutant, known equivalents) (int, error) {
	lab, err := newLab(target)
	if err != nil {
		return 0, err
	}
	defer lab.close()
	began := time.Now()
	count := map[fate]int{}
	tried := 0
	for r := range lab.tryAll(mutants, runtime.NumCPU()) {
		tried++
		if r.fate == survived && known.has(r.mutant) {
			r.fate = explained
		}
		count[r.fate]++
		switch {
		case r.fate == survived || r.fate == broken:
			fmt.Printf("%s: %v\n%s", r.fate, r.mutant, r.output)
		case tried%20 == 0:
			fmt.Printf("%d of %d tried, %v\n", tried, len(mutants), time.Since(began).Round(time.Second))
		}
	}
	fmt.Printf("%d mutants in %v: %d killed, %d survived, %d survived and are explained, %d did not compile\n",
		tried, time.Since(began).Round(time.Second), count[killed], count[survived], count[explained], count[uncompilable])
	return count[survived] + count[broken], nil
}

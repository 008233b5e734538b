package probecmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

// catalogue returns the cases of all protocols.
func catalogue() (all []probe.Case) {
	for _, p := range recipe.Protocols() {
		all = append(all, p.Cases...)
	}
	return all
}

// chooseFor returns the cases of a protocol that the flags ask for. Asking for a case of another protocol is an error;
// skipping one is not, so that one command line can serve several recipes.
func (c runCmd) chooseFor(p recipe.Protocol) ([]probe.Case, error) {
	for _, name := range c.Only {
		if name = caseName(name); isCase(catalogue(), name) && !isCase(p.Cases, name) {
			return nil, cli.Refusef("--only %s: %s is for %s, whose cases are %s to %s", name, c.Recipe, p.Name,
				p.Cases[0].ID, p.Cases[len(p.Cases)-1].ID)
		}
	}
	return c.choose(p.Cases)
}

// choose returns the cases that the flags ask for.
func (c runCmd) choose(of []probe.Case) ([]probe.Case, error) {
	for flag, names := range map[string][]string{"--only": c.Only, "--skip": c.Skip} {
		for i, name := range names {
			if names[i] = caseName(name); !isCase(catalogue(), names[i]) {
				return nil, cli.Refusef("%s %s: there is no such case; retrysafe probe --list shows them", flag, name)
			}
		}
	}
	named := func(names []string, k probe.Case) bool {
		return slices.Contains(names, k.ID) || slices.Contains(names, k.ID[:1])
	}
	all := slices.DeleteFunc(slices.Clone(of), func(k probe.Case) bool {
		return len(c.Only) > 0 && !named(c.Only, k) || named(c.Skip, k) || c.Safe && !k.Safe
	})
	if len(all) == 0 {
		return nil, cli.Refusef("--only, --skip and --safe leave no case to play; retrysafe probe --list shows them")
	}
	return all, nil
}

// caseName returns a name as the catalogue writes it.
func caseName(s string) string { return strings.ToUpper(strings.TrimSpace(s)) }

// isCase reports the identifier of one of the cases, or the letter of a group.
func isCase(of []probe.Case, name string) bool {
	return slices.ContainsFunc(of, func(k probe.Case) bool { return k.ID == name || k.ID[:1] == name })
}

func idsOf(all []probe.Case) []string {
	ids := make([]string, len(all))
	for i, k := range all {
		ids[i] = k.ID
	}
	return ids
}

// groupNames are the subjects of the cases by the first letter of their IDs.
var groupNames = map[string]string{
	"B": "Basics", "K": "Key syntax", "M": "Mismatch", "C": "Concurrency", "F": "Failures", "X": "Scope and security",
	"H": "HTTP hygiene", "T": "Expiry and policy", "G": "gRPC",
}

// list prints a line for each case.
func list(w io.Writer, all []probe.Case) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	group := ""
	for _, k := range all {
		if letter := k.ID[:1]; letter != group {
			if group != "" {
				fmt.Fprintln(t)
			}
			group = letter
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Severity, badges(k), k.Checks)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w,
		"\n%s. \"safe\" marks the cases of the badge; retrysafe probe --explain %s describes one case.\n",
		cases(len(all)), all[0].ID)
	return err
}

func badges(k probe.Case) string {
	switch {
	case k.Safe:
		return "safe"
	case k.Draft:
		return "ietf"
	}
	return ""
}

// explain prints what is known of a case.
func explain(w io.Writer, id string) error {
	all := catalogue()
	i := slices.IndexFunc(all, func(k probe.Case) bool { return strings.EqualFold(k.ID, id) })
	if i < 0 {
		return cli.Refusef("--explain %s: there is no such case; retrysafe probe --list shows them", id)
	}
	k := all[i]
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n\n  %s\n\n", k.ID, k.Name, k.Checks)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-11s %s\n", name, text)
		}
	}
	row("Source", k.Source)
	row("Severity", string(k.Severity))
	row("Why", k.Why)
	row("Fix", k.Fix)
	for _, n := range k.Needs {
		row("Needs", n.What)
	}
	row("Profiles", strings.Join(k.Profiles, ", "))
	switch badges(k) {
	case "safe":
		row("Badge", "safe: an API that fails it is not safe to retry")
	case "ietf":
		row("Badge", "ietf")
	}
	fmt.Fprintf(&b, "\n  retrysafe probe --only %s plays it alone.\n", k.ID)
	_, err := io.WriteString(w, b.String())
	return err
}

package torture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names returns the names of mutants, for Subject.Mutants.
func Names[M any](mutants map[string]M) []string { return slices.Sorted(maps.Keys(mutants)) }

// Mutation is changes of texts, such as SQL statements, that break a store together: usually they take one condition
// out.
type Mutation []Change

// Change replaces Old in Text wherever it stands.
type Change struct {
	Text         *string
	Old, Instead string
}

// Apply makes the changes. It returns an error if a text does not say what is to be replaced: the mutant would be none.
func (m Mutation) Apply() error {
	if len(m) == 0 {
		return errors.New("there is no such mutant")
	}
	for _, c := range m {
		if !strings.Contains(*c.Text, c.Old) {
			return fmt.Errorf("the text does not say %q", c.Old)
		}
		*c.Text = strings.ReplaceAll(*c.Text, c.Old, c.Instead)
	}
	return nil
}

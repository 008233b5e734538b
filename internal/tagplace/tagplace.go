// Package tagplace takes the tags of a key from where an adapter's options say, in the same way for HTTP requests, RPC
// calls and messages.
package tagplace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Read returns the tags whose values value finds at their places. A value that is missing, or that no tag can have, is
// left out: nothing is refused because people could not find it. The names have passed Validate.
func Read[P any](places map[string]P, value func(P) string) retrysafe.Tags {
	if len(places) == 0 {
		return retrysafe.Tags{}
	}
	pairs := make(map[string]string, len(places))
	for name, place := range places {
		text := value(place)
		if _, err := retrysafe.NewTags(map[string]string{name: text}); err == nil {
			pairs[name] = text
		}
	}
	tags, _ := retrysafe.NewTags(pairs) // no more than Validate admits
	return tags
}

// Validate returns what is wrong with the names of tags, or what validate finds wrong with a place.
func Validate[P any](places map[string]P, validate func(P) error) error {
	names := slices.Sorted(maps.Keys(places))
	if len(names) > retrysafe.MaxTags {
		return fmt.Errorf("%d names, the limit is %d", len(names), retrysafe.MaxTags)
	}
	for _, name := range names {
		if _, err := retrysafe.NewTags(map[string]string{name: "value"}); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "retrysafe: "))
		}
		if err := validate(places[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

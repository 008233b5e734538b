package probe

import (
	"encoding/json"
	"errors"
	"fmt"
)

// check reports what the recipe lacks.
func (r *Recipe) check() error {
	switch {
	case r.Target == nil || r.Target.Host == "":
		return errors.New("recipe: target is missing: where is the API?")
	case r.Target.Scheme != "http" && r.Target.Scheme != "https":
		return fmt.Errorf("recipe: target %s: use http or https", r.Target.Redacted())
	case r.Request.Path == "":
		return errors.New("recipe: request.path is missing")
	case r.Identity.Pointer == "" && r.Identity.Header == "":
		return errors.New("recipe: identity is missing: where does an answer say what was created?")
	}
	return r.Request.Check()
}

// isJSON reports whether the body is JSON once it is filled in.
func (t Template) isJSON() bool {
	return json.Valid([]byte(Intent{uuid: "u", seq: 1, amount: 1, at: "t"}.fill(t.Body)))
}

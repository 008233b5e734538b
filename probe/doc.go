// Package probe tests from the outside whether an HTTP API is safe to retry. It knows nothing of what the API is made with, and
// imports nothing of this repository: it sees what is on the wire, and what a Recipe tells it of the effects.
//
// A run plays cases. Each has an identifier such as M01, the sentence that it checks, and where that sentence comes from. A
// case sends requests that nobody has sent before, looks at the answers and at the effects, and ends with a verdict: PASS, FAIL,
// WARN (a SHOULD is not kept), INFO (recorded, not judged) or N/A (the recipe lacks what the case needs).
//
//	report, err := probe.Run(ctx, recipe, probe.Options{})
package probe

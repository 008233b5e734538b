// Package probe tests from the outside whether an HTTP API is safe to retry. It knows nothing of what the API is made with, and
// imports nothing of this repository: it sees what is on the wire, and what a Recipe tells it of the effects.
//
// A run plays cases. Each has an identifier such as M01, the sentence that it checks, and where that sentence comes from. A
// case sends requests that nobody has sent before, looks at the answers and at the effects, and ends with a verdict: PASS, FAIL,
// WARN (a SHOULD is not kept), INFO (recorded, not judged) or N/A (the recipe lacks what the case needs).
//
//	report, err := probe.Run(ctx, recipe, probe.Options{})
//
// # Design
//
//   - The probe writes its own bytes. Each request has a connection of its own, written and read by the probe: net/http
//     would repeat a request with a key by itself, tidy header lines, and hide how an answer is framed.
//   - A case is a sentence and data. What a profile promises is in Rules; a case compares with that and does not know
//     profiles. What a profile leaves open is recorded and not judged.
//   - There are two kinds of evidence: a count of effects, or the identities that answers show. Nothing is judged by
//     time alone.
//   - Each case is tested with a fault. internal/target keeps the rules or breaks one; each case that can fail is seen
//     to fail with the fault meant for it, and to pass without. The products of this repository are tested with all
//     cases, in every profile (integration).
package probe

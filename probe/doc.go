// Package probe tests from the outside whether an API is safe to retry. It imports nothing of this repository but its
// own module: it sees what is on the wire, and what a recipe says of the effects.
//
// A suite is the cases of one protocol. Each case has an identifier such as M01, the sentence that it checks, and
// where that sentence comes from. A case sends requests that have not been sent before, compares the answers and the
// effects with its sentence, and ends with a verdict: PASS, FAIL, WARN (a SHOULD is not kept), INFO (recorded, not
// judged), N/A (the recipe lacks what the case needs) or BROKEN (the target did not let the case run).
//
//	report, err := cases.Run(ctx, recipe, probe.Options{})
//
// This package is the runner, which knows no protocol: Suite and Play (play.go), Run, which a case is given (run.go),
// the counting of effects (effects.go), what FAILs have in common (causes.go), the report (report.go, routes.go, observed.go).
// It also has the recipe of an HTTP API (recipe.go, template.go), which other packages read and open.
//
//   - cases: the HTTP suite
//   - wire: the HTTP client that the suite uses
//   - profile: what the rules of an API promise, by the name that it has declared
//   - grpcprobe: the gRPC suite
//   - recipe, draft: recipes in YAML, and their first drafts
//   - report: a report as a table, HTML, Markdown, JUnit, SARIF or badge
//   - internal/target: an API with a fault of one's choice, which the probe is tested with
//
// design.md in the folder of this package says why it is built so.
package probe

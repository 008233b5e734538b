// Package cases is the HTTP suite of the probe.
//
//	report, err := cases.Run(ctx, recipe, probe.Options{})
//
// suite.go has Run and All; run.go is what a case is given, setup.go what is sent before, needs.go what a recipe may lack. Then come the groups,
// each with the table of its cases in the file of its name and the cases beside it:
//
//   - B basics.go: a key runs once, and each retry gets the first answer; replay.go, keyless.go
//   - K keys.go: what a key may look like; quotes.go, lengths.go, characters.go
//   - M mismatch.go: another request under a used key; bodies.go, members.go, targets.go
//   - C concurrency.go: requests at the same time; burst.go, overlap.go, halfsent.go
//   - F failures.go: errors, lost answers, crashes; refusals.go, ratelimit.go, lost.go, crash.go, behind.go
//   - X scope.go: what belongs to another caller; revoked.go
//   - H http.go: a replay is an HTTP response like any other; framing.go, expect.go, headers.go, methods.go, kinds.go
//   - T expiry.go: how long a key is remembered; policy.go
//
// A case reads from top to bottom. First, Skipf and Brokenf end it where there is nothing left to judge, as testing.T's
// FailNow ends a test; judge.go has the comparisons that several cases make, retry.go the ways to retry.
package cases

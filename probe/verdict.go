package probe

// Verdict is the result of a case or of a single finding. Only FAIL says that the API is wrong.
type Verdict string

const (
	Pass   Verdict = "PASS"
	Fail   Verdict = "FAIL"   // a promise is broken
	Warn   Verdict = "WARN"   // a client would like to rely on something that is missing
	Info   Verdict = "INFO"   // recorded, not judged
	NA     Verdict = "N/A"    // the recipe lacks what is needed, or the profile has no such rule
	Broken Verdict = "BROKEN" // the case could not run, so it says nothing about the API
)

// rank orders verdicts. The verdict of a case is that of its worst finding.
func (v Verdict) rank() int {
	switch v {
	case Fail:
		return 4
	case Broken:
		return 3
	case Warn:
		return 2
	case Info:
		return 1
	}
	return 0
}

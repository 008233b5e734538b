package probe

// Verdict is how a case has ended.
type Verdict string

const (
	Pass   Verdict = "PASS"
	Fail   Verdict = "FAIL"   // a promise is broken
	Warn   Verdict = "WARN"   // something that a client would like to count on is missing
	Info   Verdict = "INFO"   // recorded, not judged
	NA     Verdict = "N/A"    // the recipe lacks what is needed, or the profile has no such rule
	Broken Verdict = "BROKEN" // the target did not let the case be played
)

// rank orders verdicts of findings: the worst is that of the case.
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

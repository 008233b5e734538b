package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// record expects got to be want in every field; durations give or take the time that the test itself takes. FirstFence
// may be left out if it is the Fence.
func (k *kit) record(got, want retrysafe.Record) {
	k.Helper()
	if want.FirstFence == 0 {
		want.FirstFence = want.Fence
	}
	if d := difference(got, want, slack); d != "" {
		k.Errorf("record:%s", d)
	}
}

// difference names the fields in which two records differ. Empty and absent bytes are the same.
func difference(got, want retrysafe.Record, within time.Duration) string {
	var d strings.Builder
	field := func(name string, same bool, got, want any) {
		if !same {
			fmt.Fprintf(&d, "\n\t%s: got %v, want %v", name, got, want)
		}
	}
	field("Key", got.Key == want.Key, got.Key, want.Key)
	field("Fingerprint", got.Fingerprint == want.Fingerprint, got.Fingerprint, want.Fingerprint)
	field("State", got.State == want.State, got.State, want.State)
	field("Fence", got.Fence == want.Fence, got.Fence, want.Fence)
	field("FirstFence", got.FirstFence == want.FirstFence, got.FirstFence, want.FirstFence)
	field("Attempt", got.Attempt == want.Attempt, got.Attempt, want.Attempt)
	field("Result", sameResult(got.Result, want.Result), got.Result, want.Result)
	field("Steps", sameSteps(got.Steps, want.Steps), got.Steps, want.Steps)
	field("Tags", got.Tags == want.Tags, got.Tags, want.Tags)
	field("Age", sameDuration(got.Age, want.Age, within), got.Age, want.Age)
	sameEnd := sameDuration(got.EndedAge, want.EndedAge, within) && (want.State != retrysafe.Pending || got.EndedAge == 0)
	field("EndedAge", sameEnd, got.EndedAge, want.EndedAge)
	field("LeaseLeft", sameLeft(got.LeaseLeft, want.LeaseLeft, within), got.LeaseLeft, want.LeaseLeft)
	field("ReplayLeft", sameLeft(got.ReplayLeft, want.ReplayLeft, within), got.ReplayLeft, want.ReplayLeft)
	field("KeyLeft", sameLeft(got.KeyLeft, want.KeyLeft, within), got.KeyLeft, want.KeyLeft)
	field("AuditLeft", sameLeft(got.AuditLeft, want.AuditLeft, within), got.AuditLeft, want.AuditLeft)
	return d.String()
}

// sameDuration allows a difference.
func sameDuration(got, want, within time.Duration) bool {
	return got >= 0 && (got-want).Abs() <= within
}

// sameLeft allows a difference of what is left, and none for what has passed.
func sameLeft(got, want, within time.Duration) bool {
	return (got == 0) == (want == 0) && sameDuration(got, want, within)
}

func sameResult(a, b retrysafe.Result) bool {
	return a.Failed == b.Failed && a.Code == b.Code && a.Omitted == b.Omitted &&
		bytes.Equal(a.Meta, b.Meta) && bytes.Equal(a.Body, b.Body)
}

func sameSteps(a, b []retrysafe.StepResult) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !bytes.Equal(a[i].Data, b[i].Data) {
			return false
		}
	}
	return true
}

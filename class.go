package retrysafe

// Class says what an answer of the work means for its key. Adapters derive it from the protocol's status: an HTTP
// status, a gRPC code.
type Class uint8

const (
	// ClassStore means that the outcome is definite: the answer is kept and replayed.
	ClassStore Class = iota + 1
	// ClassRelease means that nothing happened: the answer is sent, and the key is free again.
	ClassRelease
	// ClassAmbiguous means that something may have happened: an AmbiguousPolicy decides.
	ClassAmbiguous
	// ClassUnknown means that it cannot be told what happened: the answer is sent, and the key is abandoned.
	ClassUnknown
)

// String returns "store", "release", "ambiguous" or "unknown".
func (c Class) String() string { return name(int(c), "store", "release", "ambiguous", "unknown") }

// AmbiguousPolicy says what happens to the key of an answer of ClassAmbiguous, such as 500 over HTTP.
type AmbiguousPolicy uint8

const (
	// AmbiguousStore keeps and replays the answer: the operation never runs twice.
	AmbiguousStore AmbiguousPolicy = iota + 1
	// AmbiguousRelease frees the key. Use it only for operations that may run twice, or that undo all they did before
	// they fail.
	AmbiguousRelease
	// AmbiguousUnknown abandons the key: Policy.OnAbandoned decides what a retry gets.
	AmbiguousUnknown
)

// String returns "store", "release" or "unknown".
func (p AmbiguousPolicy) String() string { return name(int(p), "store", "release", "unknown") }

// Or returns p, or the default under policy if p is zero: AmbiguousStore under Refuse. Work that may be entered again
// after a crash may be entered again after a server error too: it is AmbiguousUnknown under Rerun and Reconcile, and
// AmbiguousRelease under RerunTx. What work means by an error without a mark follows the same rule.
func (p AmbiguousPolicy) Or(policy Policy) AmbiguousPolicy {
	switch {
	case p != 0:
		return p
	case policy.OnAbandoned.kind == abandonedRerunTx:
		return AmbiguousRelease
	case policy.OnAbandoned.Resumes():
		return AmbiguousUnknown
	}
	return AmbiguousStore
}

// Apply returns c, with ClassAmbiguous replaced by the class that p stands for. The zero policy is AmbiguousStore.
func (p AmbiguousPolicy) Apply(c Class) Class {
	if c != ClassAmbiguous {
		return c
	}
	switch p {
	case AmbiguousRelease:
		return ClassRelease
	case AmbiguousUnknown:
		return ClassUnknown
	}
	return ClassStore
}

// classOf returns the class of an error that the work returned. An error without a mark is ambiguous; if the Guard has
// ended the work's context before, as after Policy.Timeout, most likely the work was interrupted.
func (a *Attempt) classOf(err error) Class {
	class, _ := markOf(err)
	switch {
	case class != 0:
		return class
	case a.Err() != nil:
		return ClassUnknown
	}
	return AmbiguousPolicy(0).Or(a.guard.policy).Apply(ClassAmbiguous)
}

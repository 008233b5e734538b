package retrysafe

// NoteCall notes that this attempt makes the downstream call name with a request of that digest, and returns the digest
// that was noted first under the name; again is false if this is the first.
//
// A child key is derived from a name alone, so that it is the same on every attempt. Adapters that send child keys by
// themselves note each call, and refuse a second one of the same name that they cannot tell from another operation: both
// would go out under one key. What is noted belongs to this attempt and is not saved; the next begins afresh.
func (a *Attempt) NoteCall(name, digest string) (first string, again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first, again = a.calls[name]; again {
		return first, true
	}
	if a.calls == nil {
		a.calls = make(map[string]string)
	}
	a.calls[name] = digest
	return digest, false
}

// Package fingerprint makes the digests by which a Guard recognises a retry: equal requests have equal fingerprints,
// and a key that comes with another fingerprint is refused (retrysafe.ErrMismatch).
//
//	algorithm := fingerprint.New("payments1", nil)
//	fields := fingerprint.Fields{Exclude: []string{"/sent_at"}}
//	print := algorithm.Sum("POST", "/payments", fingerprint.JSONPart(body, fields))
//
// An Algorithm digests the parts of a request. JSONPart makes the part of a JSON body, so that white space, the order
// of members and escapes do not count, and Fields chooses which members do. JSONField reads one value, and
// JSONKey one for a key or a tag. ReplaceJSON, SetJSON and RedactJSON change values of a body and leave all other bytes as they are.
//
// design.md in the folder of this package says why it is built so and what its files are.
package fingerprint

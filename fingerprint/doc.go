// Package fingerprint makes the digests by which a Guard recognises a retry: equal requests have equal fingerprints,
// and a key that comes with another fingerprint is refused (retrysafe.ErrMismatch).
//
//	algorithm := fingerprint.New("payments1", nil)
//	fields := fingerprint.Fields{Exclude: []string{"/sent_at"}}
//	print := algorithm.Sum("POST", "/payments", fingerprint.JSONPart(body, fields))
//
// An Algorithm digests the parts of a request. JSONPart makes the part of a JSON body, so that white space, the order
// of members and escapes do not count, and Fields chooses which members do. JSONField reads one value, for keys made of
// a body.
//
// # Why an own reader of JSON
//
// encoding/json keeps the last of several members with one name, replaces what is not UTF-8, and reads numbers as
// floating-point numbers unless it is told otherwise: requests that differ would look the same, and one of them would
// get the answer of the other. RFC 8785 (canonical JSON) rewrites numbers in the same way. This package keeps the exact
// text of numbers and refuses bodies that two readers could understand differently.
//
// # Files
//
//	algorithm.go     Algorithm: digests of parts
//	canonical.go     the canonical form
//	fields.go        Fields and JSONField: parts of a body
//	pointer.go       JSON pointers (RFC 6901)
//	parse.go scan.go the reader of JSON
package fingerprint

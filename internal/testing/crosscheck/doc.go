// Package crosscheck holds tests only: they compare parsers of ours, which require nothing but the standard library,
// with libraries that others have written for the same RFCs.
//
//	canonical JSON and JSON pointers   github.com/go-json-experiment/json/jsontext
//	structured-field strings           github.com/dunglas/httpsfv
package crosscheck

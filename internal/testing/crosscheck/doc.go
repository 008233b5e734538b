// Package crosscheck contains only tests. They compare our parsers, which use only the standard library, with other
// libraries for the same RFCs.
//
//	canonical JSON and JSON pointers   github.com/go-json-experiment/json/jsontext
//	structured-field strings           github.com/dunglas/httpsfv
package crosscheck

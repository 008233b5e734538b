// Package guides holds the tests of the guides in docs: one compiles each snippet of Go, another follows the guides word by
// word, as a new user would.
package guides

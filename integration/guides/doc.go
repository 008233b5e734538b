// Package guides tests the guides in docs: one test compiles each Go snippet, another follows the guides literally,
// like a new user.
package guides

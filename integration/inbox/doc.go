// Package inbox tests package inbox on its databases, with a Guard and handlers in the same process. What becomes of
// requests when processes and servers are killed is tested in package exactlyonce.
package inbox

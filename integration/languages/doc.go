// Package languages runs the programs of the pages in docs/frameworks: services in other languages than Go that complete
// their keys through SQL, behind the command `retrysafe proxy`, with a real PostgreSQL. What a page shows of its program
// is compared with the program.
//
// Python and Node run with the other tests. Programs whose languages take longer to install run by `make languages`,
// which sets the build tag languages.
package languages

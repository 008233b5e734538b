// Package judges runs test suites that other projects publish against this one: the middleware, the interceptors and
// the proxy are judged by rules of other authors.
//
// A suite that tests what the middleware and the proxy pass on runs twice in one test: directly, and through this
// project. What fails both ways is no fault of this project's, and only what fails in one of them counts. Each
// difference needs a reason, in the file of its suite.
//
// results.json has the results, and docs/proof-independent-suites.md shows them. make judges writes both.
// TestSoakSuites compares: in make test it runs what takes less than a second, in make soak everything.
package judges

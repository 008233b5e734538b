// Package clientlibs runs the tests of the client libraries in other languages, which are in the folder clients,
// against real servers.
package clientlibs

// Package envoy plays Envoy in tests of package extproc, and tests docs/envoy.md with it. A Player reads a
// configuration into Envoy's own types, and does with requests what the comments of ext_proc.proto and Envoy's
// ext_proc.cc say. It is no Envoy: it has one listener, one route, one upstream filter and no pools.
package envoy

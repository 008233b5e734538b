// Package gateways tests docs/gateways.md: real gateways run with the configurations of that page in front of two
// proxies, which are killed under load.
package gateways

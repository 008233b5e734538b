// Package clients tests the proxy with clients that other people wrote, through a network that cuts their
// connections, and with checks that the projects of protocols publish. The program in survey measures how such clients
// behave: see docs/clients.md.
package clients

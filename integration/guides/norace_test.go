//go:build !race

package guides

const race = false

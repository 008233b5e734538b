//go:build race

package guides

// race says that the tests run with the race detector, whose builds of our packages are then at hand.
const race = true

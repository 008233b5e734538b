package storetest

import "time"

// WakeWithin has the rules wait for so long for a value of a watch.
func WakeWithin(d time.Duration) { wakeTime = d }

package plain

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/bench/peers"
)

// Seen to fail with the check for failed transactions taken out.
func TestTheReportOfPgbenchIsRead(t *testing.T) {
	const report = `scaling factor: 1
number of transactions actually processed: 1234
number of failed transactions: 0 (0.000%)
latency average = 1.621 ms
initial connection time = 2.100 ms
tps = 616.990001 (without initial connection time)
`
	if got, err := parsePgbench(report); got != (peers.Done{Count: 1234, PerSecond: 616.990001}) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	const late = "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n"
	if got, err := parsePgbench(late); got != (peers.Done{}) || err != nil {
		t.Errorf("no time left after connecting: got %v, %v", got, err)
	}
	for what, broken := range map[string]string{
		"nothing": "", "a failed pair": strings.Replace(report, "transactions: 0", "transactions: 3", 1),
	} {
		if _, err := parsePgbench(broken); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestTheReportOfRedisBenchmarkIsRead(t *testing.T) {
	got, err := parseRedisBenchmark("\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"52137.64\",\"0.512\"\n")
	if err != nil || got != 52137.64 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseRedisBenchmark("WARNING: Could not fetch server CONFIG"); err == nil {
		t.Error("a report without a rate is no error")
	}
}

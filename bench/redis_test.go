package main

import "testing"

func TestParseRedisBenchmark(t *testing.T) {
	got, err := parseRedisBenchmark("\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"52137.64\",\"0.512\"\n")
	if err != nil || got != 52137.64 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseRedisBenchmark("WARNING: Could not fetch server CONFIG"); err == nil {
		t.Error("a report without a rate is no error")
	}
}

package main

import "testing"

// BenchmarkMiddleware is for profiles: go test -run '^$' -bench Middleware/fresh -benchtime 40000x -cpuprofile cpu.out
func BenchmarkMiddleware(b *testing.B) {
	for _, kind := range requestKinds() {
		b.Run(string(kind), func(b *testing.B) {
			guarded, _ := newHandlers()
			for _, key := range keysOf(freshKey, replayed) {
				if err := guarded.Serve(key); kind == replayedKey && err != nil {
					b.Fatal(err)
				}
			}
			keys := keysOf(kind, b.N+replayed)[replayed:]
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuNanos()
			for _, key := range keys {
				if err := guarded.Serve(key); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuNanos()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

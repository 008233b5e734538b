// Package torture tests a store with several processes: it kills and pauses them, loses answers, and has them race for
// the same keys. Every store of the project is tested by it.
//
// # How to test a store with it
//
// A file torture_test.go in the package of the store:
//
//	func TestMain(m *testing.M) { torture.Main(m, tortured()) }
//
//	// What they would see: TestSoakMutants.
//	func TestSoakTorture(t *testing.T)        { tortured().Torture(t, soak.Times(t, 50)) }
//	func TestSoakRace(t *testing.T)           { tortured().Race(t, soak.Times(t, 1000)) }
//	func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }
//
//	func tortured() torture.Subject {
//		return torture.Subject{
//			// In the process of the test: a fresh, empty place, removed when the test ends.
//			Place: func(t *testing.T) string { return shared.Get(t).Database(t) },
//			// In each other process, of which there are six or eight.
//			Open: func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
//				s, err := … // connect to place, New
//				if err == nil && mutant != "" {
//					err = s.breakBy(mutant) // take one condition out of a script or a statement
//				}
//				return s, err
//			},
//			Mutants: []string{"claim without lease", "complete without fence", …},
//			RaceMutants: []string{"claim without lease"},
//		}
//	}
//
// Good mutants each take one condition out of one call: complete, extend, checkpoint and release without comparing the
// fence, or the owner and the fence; a claim that ignores a running lease; a claim, an expiry or a sweep that comes
// before the deadline; a checkpoint that saves one step only. A mutant that cannot be applied is an error of Open. Six
// or so are enough. SeesMutants takes from one second to thirty for each, so make test breaks a store by its first
// mutant, and make soak by all. That the checks see what they are made for is tested here, on a memstore, each time.
//
// A store that differs from the default sets more of Subject: OneProcess if its file is locked, Lease if its calls take
// more than 10 ms, Tolerance if its clock is not that of this machine, Unsure for errors of connections that break,
// FencesAreClock if even the fence of a take-over is at least the store's clock. Open limits the connections of each
// process, because Race makes 32 calls at once in each of eight. If the store asks its server for the time,
// TortureWithWrongClocks shows it; it needs Subject.Now.
//
// Memory is a memstore that several processes use, for stores that are made of other stores. Subject.Children are what
// processes do that a test of the package's own starts, with Start, and kills.
//
// # How Torture works
//
// Six processes of the test binary have four clients each, which make random calls on sixty keys: claims that take
// over or do not, heartbeats, checkpoints, completions and releases, also under leases that they have lost. Some calls
// have a context that ends before the answer can be there. Sweep runs beside them. In each round the test kills a
// process with SIGKILL and starts another one, or pauses one with SIGSTOP for up to four leases.
//
// The clients write what they see to stdout: before each call, so that a killed process leaves word of what it may
// have done, and after it. In between they ask a clock in the process of the test, which gives each moment a number,
// its time and the newest fence of the key that any client knows. So the checks know what was before what, in all
// processes. An error that a call may not return ends the test.
//
// The checks prove violations from what the clients were told, and guess nothing: two owners of a fence, a write that
// was acknowledged although a newer fence was known before it began, a claim while the lease of another one ran or
// while an ended key is kept, a result that changes, a step that was saved and is not shown, a lease called lost or
// abandoned while it runs, an abandoned key that is given to a claim that does not take over.
//
// The judge takes each key's calls as a whole: it looks for an order in which internal/model, the contract as a function,
// gives every answer that a client was told. A call whose answer was lost, or whose process was killed, takes effect at
// any later moment or never. Where there are too many orders, it cannot tell: Torture counts what was judged.
//
// TracesSee breaks a store in the process of the test and replays the model's traces, which need neither luck nor load.
// SeesMutants remains for what they cannot see: races, and errors of a clock of less than a few seconds.
//
// # How Race works
//
// Eight processes claim the same 32 keys at once; see Race for what is checked. The keys of a batch are claimed by a
// goroutine each, so that the claims overlap although the processes are told to begin once per batch: Race fails if
// they hardly ever do.
//
// # Where things are
//
//   - subject.go: Subject, Main. process.go: the other processes. memory.go: Memory.
//   - torture.go: Torture and SeesMutants. client.go: what its processes do. clock.go: the clock.
//   - minimise.go: the answers of a history that contradict each other, and a drawing of them.
//   - event.go, check.go, held.go: what clients tell, and the checks. judge.go: the judge. traces.go: TracesSee.
//   - race.go: Race. racer.go: what its processes do.
//   - wrongclock.go: TortureWithWrongClocks.
//   - mutant.go: how a mutant changes what a store says to its server, and the one that takes any lease for good.
package torture

package matrix

import (
	"slices"
	"strings"
)

// stores are the columns' groups, in the order of the page.
func stores() []string {
	return []string{memory, sqlite, postgres, sqlFunctions, mysql, redis, natsKV, dynamo}
}

// The stores.
const (
	memory       = "memory"
	sqlite       = "sqlite"
	postgres     = "postgres"
	sqlFunctions = "sql-functions"
	mysql        = "mysql"
	redis        = "redis"
	natsKV       = "nats"
	dynamo       = "dynamodb"
)

// The policies, and what the work does under each.
const (
	refuse    = "refuse"      // one effect, in a system that knows nothing of keys
	rerun     = "rerun"       // the same
	reconcile = "reconcile"   // one effect, in a system that compares fences and can be asked
	sameTx    = "transaction" // a row, in the transaction that completes the key
	steps     = "steps"       // two steps, each with an effect under a child key
)

func policies() []string { return []string{refuse, rerun, reconcile, sameTx, steps} }

// rule says why cells are not run, or what of them is known. Empty fields match all.
type rule struct {
	stores   []string
	policies []string
	fault    func(fault) bool
	reason   string
}

func (r rule) matches(store, policy string, f fault) bool {
	return (r.stores == nil || slices.Contains(r.stores, store)) &&
		(r.policies == nil || slices.Contains(r.policies, policy)) && (r.fault == nil || r.fault(f))
}

// only is the faults whose script has these words.
func only(words ...string) func(fault) bool { return func(f fault) bool { return f.has(words...) } }

// notApplicable says which cells cannot be.
func notApplicable() []rule {
	inProcess := []string{memory, sqlite}
	return []rule{
		{
			policies: []string{sameTx}, stores: []string{memory, redis, natsKV},
			reason: "The store has no transactions with the work's own writes.",
		},
		{
			policies: []string{sameTx}, stores: []string{dynamo},
			reason: "The stand-in of DynamoDB has no transactions: `TestTransactionMayBeRepeated` of `stores/dynamostore` " +
				"adds them.",
		},
		{
			stores: []string{memory}, fault: func(f fault) bool { return f.has("kill") || f.has("kill2") },
			reason: "The records are in the process, and end with it.",
		},
		{
			stores: []string{memory, sqlFunctions, redis, natsKV, dynamo}, fault: only("post"),
			reason: "The table of an inbox is in SQLite, PostgreSQL or MySQL; keys in another store change nothing about it.",
		},
		{
			stores: inProcess, fault: func(f fault) bool { return f.has("stop") },
			reason: "One process has the store, so that no other attempt runs while it is stopped: see the suspended machine.",
		},
		{stores: inProcess, fault: func(f fault) bool {
			return f.has("server", "kill") || f.has("server", "failover") ||
				f.has("server", "pause") && !f.has("stop") || f.has("isolate") || f.has("cut") || f.has("drop")
		}, reason: "There is no server and no network."},
		{
			stores: []string{memory}, fault: only("server", "full"),
			reason: "There is no disk; `stores/memstore` tests its limits.",
		},
		{stores: []string{redis, natsKV}, fault: only("sweep"), reason: "The server itself removes what has expired."},
		{stores: []string{sqlFunctions}, fault: only("sweep"), reason: "Services do not sweep: see PostgreSQL."},
		{stores: []string{memory}, fault: only("sweep"), reason: "The records are in the process, and end with it."},
		{policies: []string{refuse, rerun, reconcile, sameTx}, fault: func(f fault) bool {
			return f.arms("step:") || f.arms(":step") || f.arms("saved")
		}, reason: "The work has no steps."},
		{policies: []string{sameTx}, fault: func(f fault) bool {
			return f.arms("lose:complete") || f.arms("throttle:complete")
		}, reason: "COMMIT is no call of the Store; see the network that is cut."},
		{
			stores: []string{postgres, sqlFunctions}, fault: only("server", "full"),
			reason: "PostgreSQL ends when it cannot write its log, and that takes a disk of its own: `TestFullServer` of " +
				"`stores/pgstore` and `TestFullDiskOfPostgres` of `integration` have one.",
		},
		{stores: []string{dynamo}, fault: only("server", "full"), reason: "DynamoDB has no disk; see what is throttled."},
		{stores: []string{memory, sqlite, redis, natsKV, dynamo}, fault: func(f fault) bool {
			return f.has("server", "ahead") || f.has("server", "behind")
		}, reason: "The harness does not set the clock of this server: `TestSoakTortureWithWrongClocks` " +
			"sets those of the processes."},
		{stores: []string{memory, sqlite, mysql, sqlFunctions, dynamo}, fault: func(f fault) bool {
			return f.has("server", "failover") || f.has("isolate")
		}, reason: "It is not replicated here."},
		{
			stores: []string{postgres, redis}, fault: only("isolate"),
			reason: "A replica that is cut off answers nobody; the failover tests of the store cut replication.",
		},
	}
}

// limits says which cells may show what, and why that is no bug: documented limits.
func limits() []limit {
	return []limit{
		{
			rule: rule{
				policies: []string{rerun, reconcile, steps, sameTx}, fault: only("server", "right"),
				reason: "Leases run by the server's clock: if that jumps ahead, they end early, and the next attempt begins " +
					"beside the first. Fences still grow, and transactions, steps and systems that compare fences keep to one " +
					"effect.",
			},
			shows: "an attempt began beside one whose lease ran",
		},
	}
}

// limit is a rule about what a cell may show.
type limit struct {
	rule
	shows string
}

// why returns why a cell is not run; "" if it is.
func why(store, policy string, f fault) string {
	for _, r := range notApplicable() {
		if r.matches(store, policy, f) {
			return r.reason
		}
	}
	return ""
}

// known returns the reason if all problems are a documented limit.
func known(store, policy string, f fault, problems []string) string {
	reason := ""
	for _, p := range problems {
		i := slices.IndexFunc(limits(), func(l limit) bool {
			return l.matches(store, policy, f) && strings.HasPrefix(p, l.shows)
		})
		if i < 0 {
			return ""
		}
		reason = limits()[i].reason
	}
	return reason
}

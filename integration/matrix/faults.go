package matrix

import (
	"slices"
	"strings"
)

// fault is a row of the matrix.
type fault struct {
	ID    string
	Title string
	// Script is what happens, in words of cell.do. "lead POINT" holds the first client's request at a point, "second
	// POINT" that of another worker. Words with 2 are about that one.
	Script string
	// Free says that the work cannot have begun in the first attempt, so that the key must have an answer in the end.
	Free bool
}

// group is a part of the matrix: a table of the page.
type group struct {
	Title  string
	Faults []fault
}

// groups are all faults.
func groups() []group {
	return []group{
		{"A process is killed (SIGKILL)", []fault{
			{ID: "kill-before-claim", Title: "before the claim",
				Script: "lead claim:before; kill; retry", Free: true},
			{ID: "kill-after-claim", Title: "after the claim",
				Script: "lead claim:after; kill; retry"},
			{ID: "kill-in-work", Title: "in the work", Script: "lead work; kill; retry"},
			{ID: "kill-after-effect", Title: "after the effect",
				Script: "lead effect; kill; retry"},
			{ID: "kill-before-step", Title: "before a step is saved",
				Script: "lead step:before; kill; retry"},
			{ID: "kill-after-step", Title: "after a step was saved",
				Script: "lead saved; kill; retry"},
			{ID: "kill-before-complete", Title: "before complete",
				Script: "lead complete:before; kill; retry"},
			{ID: "kill-after-complete", Title: "after complete",
				Script: "lead complete:after; kill; retry"},
			{ID: "kill-before-heartbeat", Title: "in a heartbeat, before it",
				Script: "lead beat:before; kill; retry"},
			{ID: "kill-after-heartbeat", Title: "in a heartbeat, after it",
				Script: "lead beat:after; kill; retry"},
			{ID: "kill-in-sweep", Title: "in a sweep", Script: "lead work; sweep; kill; retry"},
		}},
		{"A process is stopped past its lease (SIGSTOP), and wakes", []fault{
			{ID: "stop-before-claim", Title: "before the claim",
				Script: "lead claim:before; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-after-claim", Title: "after the claim",
				Script: "lead claim:after; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-in-work", Title: "in the work",
				Script: "lead work; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-after-effect", Title: "after the effect",
				Script: "lead effect; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-before-step", Title: "before a step is saved",
				Script: "lead step:before; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-before-complete", Title: "before complete",
				Script: "lead complete:before; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-in-heartbeat", Title: "in a heartbeat",
				Script: "lead beat:before; stop; go; lapse; retry; settle; wake"},
			{ID: "stop-and-race", Title: "before complete, and wakes among the retries",
				Script: "lead complete:before; stop; go; lapse; retry; wait; wake"},
		}},
		{"The machine is suspended: process and server together", []fault{
			{ID: "suspend-in-work", Title: "in the work",
				Script: "lead work; stop; server pause; go; lapse; server resume; wake; retry"},
			{ID: "suspend-before-complete", Title: "before complete",
				Script: "lead complete:before; stop; server pause; go; lapse; server resume; retry; wait; wake"},
		}},
		{"The server is killed, restarted, paused", []fault{
			{ID: "server-killed-claim", Title: "killed before the claim",
				Script: "lead claim:before; server kill; go; retry; wait; server start", Free: true},
			{ID: "server-killed-claimed", Title: "killed after the claim",
				Script: "lead claim:after; server kill; go; retry; wait; server start"},
			{ID: "server-killed-work", Title: "killed in the work",
				Script: "lead work; server kill; go; retry; wait; server start"},
			{ID: "server-killed-complete", Title: "killed before complete",
				Script: "lead complete:before; server kill; go; retry; wait; server start"},
			{ID: "server-killed-completed", Title: "killed after complete",
				Script: "lead complete:after; server kill; go; retry; wait; server start"},
			{ID: "server-down-long", Title: "down past the lease before complete",
				Script: "lead complete:before; server kill; go; retry; lapse; server start"},
			{ID: "server-paused-claim", Title: "paused past the lease in the claim",
				Script: "lead claim:before; server pause; go; retry; lapse; server resume"},
			{ID: "server-paused-work", Title: "paused past the lease in the work",
				Script: "lead work; server pause; retry; lapse; go; server resume"},
			{ID: "server-paused-complete", Title: "paused past the lease in complete",
				Script: "lead complete:before; server pause; go; retry; lapse; server resume"},
		}},
		{"The disk or the bucket of the store is full", []fault{
			{ID: "full-claim", Title: "before the claim",
				Script: "lead claim:before; server full; go; retry; wait; server space", Free: true},
			{ID: "full-complete", Title: "before complete",
				Script: "lead complete:before; server full; go; retry; wait; server space"},
			{ID: "full-long", Title: "past the lease before complete",
				Script: "lead complete:before; server full; go; retry; lapse; server space"},
		}},
		{"The network is cut between the process and the server", []fault{
			{ID: "cut-claim", Title: "both ways before the claim",
				Script: "lead claim:before; cut both; go; retry; lapse; heal"},
			{ID: "cut-claim-lost", Title: "answers of the claim are lost",
				Script: "lead claim:before; cut down; go; wait; drop; retry"},
			{ID: "cut-claim-late", Title: "the claim arrives late",
				Script: "lead claim:before; cut up; go; lapse; retry; settle; heal"},
			{ID: "cut-work", Title: "both ways past the lease in the work",
				Script: "lead work; cut both; lapse; retry; settle; go; wait; heal"},
			{ID: "cut-heartbeats", Title: "towards the server past the lease in the work",
				Script: "lead work; cut up; lapse; retry; settle; go; heal"},
			{ID: "cut-complete", Title: "both ways before complete",
				Script: "lead complete:before; cut both; go; retry; lapse; heal"},
			{ID: "cut-complete-lost", Title: "answers of complete are lost, then the connection",
				Script: "lead complete:before; cut down; go; wait; drop; retry"},
			{ID: "cut-complete-late", Title: "complete arrives late",
				Script: "lead complete:before; cut up; go; lapse; retry; settle; heal"},
			{ID: "dropped", Title: "the connection breaks in the work",
				Script: "lead work; drop; go; retry"},
		}},
		{"The answer is lost after the write, and the repeat is throttled", []fault{
			{ID: "lost-claim", Title: "claim",
				Script: "lead - lose:claim throttle:claim*2; wait; retry", Free: true},
			{ID: "lost-claims", Title: "claim, and all repeats for a while",
				Script: "lead - lose:claim*3 throttle:claim*4; wait; retry", Free: true},
			{ID: "lost-heartbeat", Title: "heartbeat",
				Script: "lead - lose:beat throttle:beat*2; wait; retry"},
			{ID: "throttled-heartbeats", Title: "heartbeats past the lease, all of them",
				Script: "lead complete:before throttle:beat*99; lapse; retry; settle; go"},
			{ID: "lost-step", Title: "step",
				Script: "lead - lose:step throttle:step*2; wait; retry"},
			{ID: "lost-complete", Title: "complete",
				Script: "lead - lose:complete throttle:complete*2; wait; retry"},
			{ID: "lost-completes", Title: "complete, and all repeats for a while",
				Script: "lead - lose:complete*2 throttle:complete*5; lapse; retry"},
			{ID: "throttled-complete", Title: "complete, which was throttled first",
				Script: "lead - throttle:complete*3; wait; retry"},
		}},
		{"The server's clock is wrong by an hour", []fault{
			{ID: "clock-ahead", Title: "jumps ahead in the work",
				Script: "lead work; server ahead; retry; wait; go; settle; server right"},
			{ID: "clock-behind", Title: "jumps back in the work",
				Script: "lead work; server behind; go; retry; settle; server right"},
			{ID: "clock-behind-killed", Title: "is behind, and the process is killed",
				Script: "server behind; lead effect; kill; server right; retry"},
			{ID: "clock-both", Title: "jumps ahead and back before complete",
				Script: "lead complete:before; server ahead; wait; server right; go; retry"},
		}},
		{"Replicas: a failover, or the network between them is cut", []fault{
			{ID: "failover-work", Title: "failover in the work",
				Script: "lead work; server failover; go; retry"},
			{ID: "failover-complete", Title: "failover before complete",
				Script: "lead complete:before; server failover; go; retry"},
			{ID: "failover-completed", Title: "failover after complete, process killed",
				Script: "lead complete:after; kill; server failover; retry"},
			{ID: "failover-killed", Title: "process killed after the effect, then failover",
				Script: "lead effect; kill; server failover; retry"},
			{ID: "partition", Title: "the leader is cut off, both ways, past the lease",
				Script: "lead work; isolate; lapse; retry; settle; go; wait; join"},
			{ID: "partition-one-way", Title: "the leader is not heard by the others, past the lease",
				Script: "lead work; isolate one-way; lapse; retry; settle; go; wait; join"},
			{ID: "partition-complete", Title: "the leader is cut off before complete",
				Script: "lead complete:before; isolate; go; retry; lapse; join"},
		}},
		{"An inbox has accepted the request, and a process delivers it", []fault{
			{ID: "inbox-before-claim", Title: "killed before the claim",
				Script: "post claim:before; kill; deliver", Free: true},
			{ID: "inbox-after-claim", Title: "killed after the claim",
				Script: "post claim:after; kill; deliver"},
			{ID: "inbox-work", Title: "killed in the work", Script: "post work; kill; deliver"},
			{ID: "inbox-effect", Title: "killed after the effect",
				Script: "post effect; kill; deliver"},
			{ID: "inbox-before-complete", Title: "killed before complete",
				Script: "post complete:before; kill; deliver"},
			{ID: "inbox-after-complete", Title: "killed after complete, before the mark",
				Script: "post complete:after; kill; deliver"},
			{ID: "inbox-stopped", Title: "stopped before complete past the lease, delivered elsewhere, and wakes",
				Script: "post complete:before; stop; go; lapse; deliver; settle; wake"},
			{ID: "inbox-server", Title: "the server is killed in the work",
				Script: "post work; server kill; go; wait; server start; deliver"},
			{ID: "inbox-row", Title: "killed after the effect, then the server is killed and started",
				Script: "post effect; kill; server kill; server start; deliver"},
		}},
		{"Several faults in a row", []fault{
			{ID: "row-takeover-killed",
				Title:  "killed after the effect; the one that takes over is killed before complete",
				Script: "lead effect; kill; lapse; second complete:before; kill2; retry"},
			{ID: "row-takeover-claimed",
				Title:  "killed after the effect; the one that takes over is killed after its claim",
				Script: "lead effect; kill; lapse; second claim:after; kill2; retry"},
			{ID: "row-two-zombies", Title: "two attempts stopped before complete, and both wake",
				Script: "lead complete:before; stop; go; lapse; second complete:before; stop2; go2; lapse; retry; settle; wake2; wake"},
			{ID: "row-zombie-restart",
				Title:  "stopped after the effect, its successor killed, the server killed and started, the zombie wakes",
				Script: "lead effect; stop; go; lapse; second effect; kill2; server kill; server start; retry; wait; wake"},
			{ID: "row-lost-killed", Title: "the answer of complete is lost, and the process is killed",
				Script: "lead complete:after lose:complete; kill; retry"},
			{ID: "row-lost-claim-killed",
				Title:  "the answer of the claim is lost, the repeat throttled, and the process is killed",
				Script: "lead claim:after lose:claim throttle:claim*1; go; kill; retry"},
			{ID: "row-lost-paused", Title: "the answer of complete is lost, and the server is paused past the lease",
				Script: "lead complete:after lose:complete; server pause; go; retry; lapse; server resume"},
			{ID: "row-cut-restart",
				Title:  "answers of complete are lost, the server is killed and started, the connection breaks",
				Script: "lead complete:before; cut down; go; wait; server kill; server start; drop; retry"},
			{ID: "row-late-killed", Title: "the claim of a process arrives after it was killed",
				Script: "lead claim:before; cut up; go; wait; kill; retry; settle; heal"},
			{ID: "row-late-complete", Title: "complete of a killed process arrives after a take-over",
				Script: "lead complete:before; cut up; go; wait; kill; lapse; second work; heal; wait; go2; retry"},
			{ID: "row-restart-stopped",
				Title:  "the server is killed in the work, the process is stopped, the server starts, the process wakes",
				Script: "lead work; server kill; stop; go; server start; lapse; retry; settle; wake"},
			{ID: "row-full-restart", Title: "full before complete, then the server is killed and started with space",
				Script: "lead complete:before; server full; go; wait; server kill; server start; server space; retry"},
			{ID: "row-full-killed", Title: "full before complete, and the process is killed",
				Script: "lead complete:before; server full; go; wait; kill; server space; retry"},
			{ID: "row-pause-pause", Title: "the server is paused in complete, and again among the retries",
				Script: "lead complete:before; server pause; go; lapse; server resume; retry; server pause; lapse; server resume"},
		}},
	}
}

// has reports whether the script has a word.
func (f fault) has(words ...string) bool {
	for op := range strings.SplitSeq(f.Script, ";") {
		fields := strings.Fields(op)
		if len(words) <= len(fields) && slices.Equal(fields[:len(words)], words) {
			return true
		}
	}
	return false
}

// arms reports whether the script has something about a point.
func (f fault) arms(point string) bool { return strings.Contains(f.Script, point) }

// The variants of a stand: with a server that runs from cell to cell, with one whose clock can be set, with replicas.
const (
	plain     = ""
	withClock = "clock"
	withHA    = "replicas"
)

// variant is the stand that the fault needs.
func (f fault) variant() string {
	switch {
	case f.has("server", "ahead"), f.has("server", "behind"):
		return withClock
	case f.has("server", "failover"), f.has("isolate"):
		return withHA
	}
	return plain
}

package redisstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Risks reads the settings of every master and returns those with which it may lose an acknowledged claim or
// completion.
func (s *Store) Risks(ctx context.Context) ([]retrysafe.Risk, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	masters, err := s.readMasters(ctx)
	if err != nil {
		return nil, fmt.Errorf("risks: %w", explain(err))
	}
	var risks []retrysafe.Risk
	seen := map[retrysafe.Risk]bool{} // masters of a cluster are mostly set alike
	for _, m := range masters {
		for _, r := range append(m.diskRisks(), m.otherRisks(s.options.WaitReplicas)...) {
			if !seen[r] {
				seen[r] = true
				risks = append(risks, r)
			}
		}
	}
	return risks, nil
}

// diskRisks are what a crash of the server may lose.
func (m *master) diskRisks() []retrysafe.Risk {
	switch {
	case m.silent:
		return []retrysafe.Risk{{
			Setting: m.address + " does not answer",
			Loses:   "Whether it loses claims depends on settings that cannot be read.",
			Remedy:  "Start it, or remove it from the cluster.",
		}}
	case m.unread != nil:
		return []retrysafe.Risk{{
			Setting: "CONFIG GET is refused",
			Loses: "Whether claims are lost by a crash of the server, or deleted to make room, depends on settings that " +
				"cannot be read.",
			Remedy: "Check that appendonly is yes, appendfsync is always and maxmemory-policy is noeviction, or allow the " +
				"user +config|get.",
		}}
	case m.settings[appendOnly] != "yes":
		return []retrysafe.Risk{{
			Setting: "appendonly " + m.settings[appendOnly],
			Loses:   "If the server crashes or restarts, all claims since its last dump are lost.",
			Remedy:  "Set appendonly to yes and appendfsync to always.",
		}}
	case m.settings[appendFsync] == "everysec":
		return []retrysafe.Risk{{
			Setting: "appendfsync everysec",
			Loses:   "If the server's machine crashes, claims of the last second or two are lost.",
			Remedy:  "Set appendfsync to always.",
		}}
	case m.settings[appendFsync] != "always":
		return []retrysafe.Risk{{
			Setting: "appendfsync " + m.settings[appendFsync],
			Loses:   "If the server's machine crashes, claims of the last half minute or so are lost.",
			Remedy:  "Set appendfsync to always.",
		}}
	}
	return nil
}

// otherRisks are what a failover or a full memory may lose.
func (m *master) otherRisks(waits int) []retrysafe.Risk {
	var risks []retrysafe.Risk
	if m.evicts() {
		risks = append(risks, retrysafe.Risk{
			Setting: evictionPolicy + " " + m.settings[evictionPolicy],
			Loses:   "If the memory is full, the server deletes claims to make room.",
			Remedy:  "Set maxmemory-policy to noeviction.",
		})
	}
	if m.replicas == 0 {
		return risks
	}
	if waits == 0 {
		risks = append(risks, retrysafe.Risk{
			Setting: "asynchronous replicas",
			Loses:   "If a replica takes over, claims that it had not received yet are lost.",
			Remedy:  "Set Options.WaitReplicas to 1 or more, which narrows this, and " + minReplicas + " to 1 or more.",
		})
	} else {
		risks = append(risks, retrysafe.Risk{
			Setting: fmt.Sprintf("WaitReplicas %d", waits),
			Loses:   "If a replica takes over that is not one of those which have confirmed a claim, the claim is lost.",
			Remedy:  "Set Options.WaitReplicas to the number of replicas, or accept this.",
		})
	}
	if m.unread == nil && m.settings[minReplicas] == "0" {
		risks = append(risks, retrysafe.Risk{
			Setting: minReplicas + " 0",
			Loses: "A master that is cut off from its replicas goes on taking claims, which are lost when another master " +
				"has taken over.",
			Remedy: "Set " + minReplicas + " to 1 or more, and min-replicas-max-lag to a few seconds.",
		})
	}
	return risks
}

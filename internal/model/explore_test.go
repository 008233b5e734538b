package model

import ("testing";"time")

func TestSize(t *testing.T) {
	for _, s := range []Scope{{Owners:2,Leases:1,Steps:1,Results:1},{Owners:2,Leases:2,Steps:1,Results:1},{Owners:2,Leases:3,Steps:1,Results:1},{Owners:2,Leases:2,Steps:1,Results:1, Short:true},{Owners:2,Leases:2,Steps:2,Results:2},{Owners:2,Leases:2,Steps:1,Results:1,Transactions:true}} {
		start := time.Now()
		e,_,_ := Explore(World{}, World.Canonical, func(w World) []Action { return s.Actions(w)}, func(w World, a Action) (World, error) {
			to,_ := w.Do(a)
			if len(to.Leases) > s.Leases { return w, nil }
			return to, nil
		})
		t.Logf("%+v %+v %v", s, e, time.Since(start))
		if e.Transitions < 20000 {
			start = time.Now()
			n,p := 0,0
			tr := s.Cover()
			for _, x := range tr { n += len(x); for _, a := range x { if a.Verb=="pass" {p++} } }
			t.Logf("cover: %d traces, %d actions %d passes %v", len(tr), n, p, time.Since(start))
		}
	}
}

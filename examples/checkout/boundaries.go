package main

// boundaries returns the points at which a process can be killed, in the order in which a checkout reaches them:
// before and after each durable write, and each message. README.md shows them with these numbers, starting at 1.
func boundaries() []string {
	names := []string{"buyer-before-journal", "buyer-journaled", "shop-before-claim", "shop-claimed"}
	for _, s := range []struct{ step, service string }{{"reserve", "stock"}, {"charge", "bank"}, {"notify", "mail"}} {
		names = append(names,
			"shop-before-"+s.step,
			s.service+"-before-claim", s.service+"-claimed", s.service+"-written", s.service+"-committed",
			"shop-"+s.step+"-answered", "shop-"+s.step+"-saved",
		)
	}
	return append(names, "shop-before-completion", "shop-completed", "buyer-answered", "buyer-receipt-kept",
		"buyer-journal-ended")
}

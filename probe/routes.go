package probe

import "time"

// RouteReport is what a report says of one route of an API besides the outcomes of its cases.
type RouteReport struct {
	Name     string        `json:"name"`
	Took     time.Duration `json:"took_ns"`
	Requests int           `json:"requests"`
	Evidence Evidence      `json:"evidence"`
	Observed Observed      `json:"observed"`
}

// Join returns one report for the reports of several routes, in their order. Its outcomes and causes name their route.
// A report of an API with one request, whose recipe has no Route, is returned as it is.
func Join(all []*Report) *Report {
	if len(all) == 1 && all[0].Route == "" {
		return all[0]
	}
	joined := &Report{Schema: ReportSchema}
	for i, r := range all {
		if i == 0 {
			joined.Target, joined.Profile, joined.BeganAt, joined.Evidence = r.Target, r.Profile, r.BeganAt, r.Evidence
			joined.Observed = Observed{Schema: r.Observed.Schema, Profile: r.Observed.Profile, Protocol: r.Observed.Protocol}
		}
		joined.Took += r.Took
		joined.Requests += r.Requests
		joined.Routes = append(joined.Routes, RouteReport{r.Route, r.Took, r.Requests, r.Evidence, r.Observed})
		for _, c := range r.Causes {
			c.Route = r.Route
			joined.Causes = append(joined.Causes, c)
		}
		for _, o := range r.Outcomes {
			o.Route = r.Route
			joined.Outcomes = append(joined.Outcomes, o)
		}
	}
	return joined
}

// Sections returns a report for each route, as it was before Join. A report without routes is its only section.
func (r *Report) Sections() (all []*Report) {
	if len(r.Routes) == 0 {
		return []*Report{r}
	}
	for _, route := range r.Routes {
		s := *r
		s.Route, s.Routes, s.Outcomes, s.Causes = route.Name, nil, nil, nil
		s.Took, s.Requests, s.Evidence, s.Observed = route.Took, route.Requests, route.Evidence, route.Observed
		for _, c := range r.Causes {
			if c.Route == route.Name {
				s.Causes = append(s.Causes, c)
			}
		}
		for _, o := range r.Outcomes {
			if o.Route == route.Name {
				s.Outcomes = append(s.Outcomes, o)
			}
		}
		all = append(all, &s)
	}
	return all
}

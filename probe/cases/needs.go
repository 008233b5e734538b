package cases

import (
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/profile"
)

// need is what a case needs of the recipe.
type need struct {
	what string
	met  func(r *probe.Recipe) bool
}

// needs binds needs to the session's recipe.
func (s *session) needs(all ...need) []probe.Need {
	bound := make([]probe.Need, len(all))
	for i, n := range all {
		bound[i] = probe.Need{What: n.what, Met: func() bool { return n.met(s.recipe) }}
	}
	return bound
}

// variant needs a variant of the request.
func variant(what string, of func(v *probe.Variants) *probe.Template) need {
	return need{"variants." + what, func(r *probe.Recipe) bool { return of(&r.Variants) != nil }}
}

type (
	recipe   = probe.Recipe
	variants = probe.Variants
	template = probe.Template
)

// What several cases need. The variants that only an API with a layer in front of it can have are in behind.go.
var (
	changingBody = need{
		"a generator such as {{amount}} in request.body, so that the probe can make a different request",
		func(r *recipe) bool {
			return probe.Mentions(r.Request.Body, "") || r.Request.MentionsSaved(r.Request.Body)
		},
	}
	plainPath = need{
		"a request.path without generators",
		func(r *recipe) bool {
			return !probe.Mentions(r.Request.Path, "") && !r.Request.MentionsSaved(r.Request.Path)
		},
	}
	someBody   = need{"a request.body", func(r *recipe) bool { return r.Request.Body != "" }}
	jsonBody   = need{"a request.body that is JSON", func(r *recipe) bool { return r.Request.IsJSON() }}
	jsonObject = need{
		"a request.body that is a JSON object", func(r *recipe) bool { return len(membersOf(r.Request.Sample())) > 0 },
	}
	twoMembers = need{
		"a request.body that is a JSON object with two members",
		func(r *recipe) bool { return len(membersOf(r.Request.Sample())) > 1 },
	}
	requiredKey = need{
		"key_required: true, which says that the API refuses requests without a key",
		func(r *recipe) bool { return r.KeyRequired || hasFirstSent(r.Declared()) },
	}

	oneCredential = need{
		"credentials.a: the credential of an ordinary caller", func(r *recipe) bool { return len(r.A) > 0 },
	}
	twoCredentials = need{
		"credentials a and b: two callers", func(r *recipe) bool { return len(r.A) > 0 && len(r.B) > 0 },
	}
	laterCredential = need{
		"credentials.a_again: another credential of caller a, such as a refreshed token",
		func(r *recipe) bool { return len(r.AAgain) > 0 },
	}
	revokedCredential = need{
		"credentials.revoked: a credential that is no longer valid",
		func(r *recipe) bool { return len(r.Revoked) > 0 },
	}
	anotherHost = need{
		"other_host: another host name that the target serves, such as another tenant's",
		func(r *recipe) bool { return r.OtherHost != "" },
	}

	longRetention = need{
		"a retention of more than 5 seconds, because the case waits for two seconds",
		func(r *recipe) bool { return r.Retention == 0 || r.Retention > 5*time.Second },
	}
	shortRetention = need{
		"a retention that is at most limits.wait, so that the case can wait for its end",
		func(r *recipe) bool { return r.Retention > 0 && r.Retention <= r.Limits.Wait },
	}
	bodyTimeout = need{
		"body_timeout: how long the API waits for a body (at most limits.wait)",
		func(r *recipe) bool {
			return r.BodyTimeout > 0 && r.BodyTimeout <= r.Limits.Wait && r.Request.Body != ""
		},
	}

	restartHook = need{
		"hooks.restart: a command that kills the target and starts it again",
		func(r *recipe) bool { return r.Hooks.Restart != nil },
	}
	storeHooks = need{
		"hooks.stop_store and hooks.start_store",
		func(r *recipe) bool { return r.Hooks.StopStore != nil && r.Hooks.StartStore != nil },
	}
	credentialHooks = need{
		"hooks.revoke and hooks.restore: commands that revoke the credential of caller a and restore it",
		func(r *recipe) bool { return r.Hooks.Revoke != nil && r.Hooks.Restore != nil },
	}

	slow         = variant("slow: a request that takes a second or more", func(v *variants) *template { return v.Slow })
	changingSlow = need{
		"a generator such as {{amount}} in variants.slow, so that the probe can make a different request",
		func(r *recipe) bool { return r.Variants.Slow != nil && probe.Mentions(r.Variants.Slow.Body, "") },
	}
	failing = variant("failing: a request that is refused with a 4xx for a business reason",
		func(v *variants) *template { return v.Failing })
	invalid = variant("invalid: a request that fails validation", func(v *variants) *template { return v.Invalid })
	broken  = variant("broken: a request that ends with a 5xx", func(v *variants) *template { return v.Broken })
	rate    = variant("rate_limit: a request that is answered 429 when made too often",
		func(v *variants) *template { return v.RateLimit })
	other = variant("other: a request that creates something at another path",
		func(v *variants) *template { return v.Other })
	read = variant("read: a GET that shows what the request changes",
		func(v *variants) *template { return v.Read })
	putAndDelete = need{
		"variants.put and variants.delete, for the same resource",
		func(r *recipe) bool { return r.Variants.Put != nil && r.Variants.Delete != nil },
	}
	patch = variant("patch with If-Match; if there is variants.put, the probe takes the ETag from its answer",
		func(v *variants) *template { return v.Patch })
	cookie = variant("cookie: a request that is answered with Set-Cookie", func(v *variants) *template { return v.Cookie })
	async  = variant("async: a request that is answered 202 with a Location",
		func(v *variants) *template { return v.Async })
	informed = variant("informed: a request that is answered with a 103 or with trailers",
		func(v *variants) *template { return v.Informed })
	large = variant("large: a request that is answered with more than 1 MiB",
		func(v *variants) *template { return v.Large })
	seeOther = variant("see_other: a request that runs and is answered 303 with a Location",
		func(v *variants) *template { return v.SeeOther })
	redirect = variant("redirect: a request that is answered 307 or 308",
		func(v *variants) *template { return v.Redirect })
	unkeyed = variant("unkeyed: a request to a path that does not support keys",
		func(v *variants) *template { return v.Unkeyed })
)

// profilesWith returns the names of the profiles whose rules say so, with that of the recipe if it is one of its own.
func (s *session) profilesWith(says func(profile.Rules) bool) (names []string) {
	for _, name := range profile.Names() {
		if says(profile.All()[name]) {
			names = append(names, name)
		}
	}
	if s.rules.Base != "" && says(s.rules) {
		names = append(names, s.rules.Name)
	}
	return names
}

// What rules say that only some cases are for.
func inHeader(r profile.Rules) bool     { return r.Member == "" && r.Pointer == "" && r.Query == "" }
func takesQuotes(r profile.Rules) bool  { return r.Quotes == profile.Accepted }
func hasProblems(r profile.Rules) bool  { return r.Problem }
func hasFirstSent(r profile.Rules) bool { return r.FirstSent != "" }

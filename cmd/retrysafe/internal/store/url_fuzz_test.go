package store

import (
	"net/url"
	"strings"
	"testing"
)

// Whatever a store's URL is like, its password is neither in the name that is printed nor in an error: written where it
// belongs, or in a parameter of any name that says so. Seen to fail with "password" looked for in names as they are
// written.
func FuzzParse(f *testing.F) {
	for _, scheme := range []string{
		"postgres", "mysql", "redis", "rediss", "nats", "dynamodb", "sqlite", "shards",
		"move",
	} {
		f.Add(scheme, "u", "", "h:1", "db", "connections=5", "password")
	}
	f.Add("postgres", "u", "%zz", "h", "db?", "a=b@c", "%70assword")
	f.Add("redis", "", "/#", "h,h2", "", "wait=x", "sentinel_PASSWORD")
	f.Add("postgres", "u:v", "@x", "h", "db", "notify=postgres://a:b@c/d", "ssl password")
	f.Fuzz(func(t *testing.T, scheme, user, more, host, path, query, param string) {
		const password = "s3cr3t"
		if strings.ContainsAny(scheme+user, "/?\\.") || len(scheme) < 2 || strings.Contains(scheme+user, ":") {
			return // no password stands behind these
		}
		if strings.Contains(strings.ToLower(scheme+user+more+host+path+query+param), "s3cr") {
			return
		}
		urls := []string{scheme + "://" + user + ":" + password + more + "@" + host + "/" + path + "?" + query}
		if name, err := url.PathUnescape(param); err == nil && !strings.ContainsAny(param, "&=") &&
			strings.Contains(strings.ToLower(name), "password") {
			urls = append(urls, scheme+"://"+user+"@"+host+"/"+path+"?"+param+"="+password+more+"&"+query)
		}
		for _, text := range urls {
			r, err := Parse(text)
			shown := r.Name
			if err != nil {
				shown += err.Error()
			}
			if strings.Contains(shown, password) && r.Path == "" && scheme != "sqlite" {
				t.Errorf("%s is shown as\n%s", text, shown)
			}
		}
	})
}

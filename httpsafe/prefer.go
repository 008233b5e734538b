package httpsafe

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// preferences are the preferences (RFC 7240) that the middleware honours.
type preferences struct {
	wait    time.Duration // 0: not given
	seconds string
	async   bool
}

// preferencesOf reads the Prefer header, as far as the configuration honours it.
func (c *config) preferencesOf(r *http.Request) preferences {
	var p preferences
	lines := r.Header["Prefer"]
	if len(lines) == 0 || !c.waits && !c.RespondAsync && c.Inbox == nil {
		return p
	}
	for _, line := range lines {
		for line != "" {
			var preference string
			preference, line = cutOutsideQuotes(line, ',')
			p.read(c, preference)
		}
	}
	return p
}

// cutOutsideQuotes cuts a line at the first mark that is not in a quoted string (RFC 9110, section 5.6.4).
func cutOutsideQuotes(line string, mark byte) (before, after string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == mark && !quoted:
			return line[:i], line[i+1:]
		}
	}
	return line, ""
}

// read notes one preference. The first of each name counts.
func (p *preferences) read(c *config, preference string) {
	preference, _ = cutOutsideQuotes(preference, ';')
	name, value, _ := strings.Cut(preference, "=")
	value = strings.Trim(strings.TrimSpace(value), `"`)
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "respond-async":
		p.async = c.RespondAsync || c.Inbox != nil
	case "wait":
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil || p.wait != 0 || !c.waits && c.Inbox == nil {
			return
		}
		p.seconds = strconv.FormatUint(seconds, 10)
		p.wait = max(time.Duration(seconds)*time.Second, 1) // WaitAtMost 0 would leave the policy's wait
	}
}

// setPreferenceApplied says that the wait was limited as the client asked.
func (x *exchange) setPreferenceApplied() {
	if x.prefer.seconds != "" {
		x.w.Header().Add("Preference-Applied", "wait="+x.prefer.seconds)
	}
}

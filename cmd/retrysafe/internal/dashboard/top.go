package dashboard

import (
	"net/http"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
)

// topPage is the data of the page of hot keys and callers.
type topPage struct {
	HasTraffic    bool // this process runs a proxy
	Keys, Callers []traffic.Top
	Seconds       float64 // in which they were counted
}

func (q *request) top() error {
	data := topPage{}
	if m := q.options.Traffic; m != nil {
		keys, callers, seconds := m.Top()
		data = topPage{true, keys, callers, float64(seconds)}
	}
	return q.render(http.StatusOK, "top", "Hot keys and callers", "top", data)
}

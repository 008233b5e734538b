package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/outbox"
)

// Bounds of the pages of outboxes.
const (
	lettersPerPage = 50
	maxHeld        = 20 // aggregates
)

// Outboxes are those of a database.
type Outboxes interface {
	// Find returns the outboxes that can be read now.
	Find(ctx context.Context) ([]outboxcmd.Box, error)
}

// errOutbox is wrapped by errors of the database that has the outboxes, which may be another one than that of the keys.
var errOutbox = errors.New("the database of the outboxes")

// ofOutbox calls do with a timeout, and marks its error.
func ofOutbox[R any](ctx context.Context, do func(context.Context) (R, error)) (R, error) {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	result, err := do(ctx)
	if err != nil {
		err = errors.Join(errOutbox, err)
	}
	return result, err
}

// menu knows whether the menu has an entry for outboxes. The database is asked at most once a minute, by one visitor
// and briefly, because every page has the menu. While it fails, the menu stays as it was.
type menu struct {
	mu   sync.Mutex
	next time.Time
	has  bool
}

const (
	menuEvery   = time.Minute
	menuTimeout = time.Second
)

func (m *menu) hasOutboxes(ctx context.Context, from Outboxes) bool {
	if from == nil {
		return false
	}
	m.mu.Lock()
	has, isDue := m.has, !time.Now().Before(m.next)
	if isDue {
		m.next = time.Now().Add(menuEvery)
	}
	m.mu.Unlock()
	if !isDue {
		return has
	}
	ctx, stop := context.WithTimeout(ctx, menuTimeout)
	defer stop()
	found, err := from.Find(ctx)
	if err != nil {
		return has
	}
	m.set(len(found) > 0)
	return len(found) > 0
}

func (m *menu) set(has bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.has, m.next = has, time.Now().Add(menuEvery)
}

// boxPart is an outbox on a page.
type boxPart struct {
	Name    string
	IsInbox bool
	Stats   outbox.Stats
	Held    []outbox.Held
	Failed  bool
}

// Delayed is the number of messages that wait for a retry.
func (p boxPart) Delayed() int { return p.Stats.Pending - p.Stats.Due - p.Stats.InFlight }

// boxes returns the outboxes as they are now.
func (q *request) boxes(ctx context.Context) ([]outboxcmd.Box, error) {
	if q.options.Outboxes == nil {
		return nil, nil
	}
	found, err := ofOutbox(ctx, q.options.Outboxes.Find)
	if err == nil {
		q.menu.set(len(found) > 0)
	}
	return found, err
}

// box returns the outbox with a name.
func (q *request) box(ctx context.Context, name string) (outboxcmd.Box, error) {
	all, err := q.boxes(ctx)
	for _, b := range all {
		if b.Name == name {
			return b, nil
		}
	}
	if err == nil {
		err = &fault{
			http.StatusNotFound, "No such outbox", "The store's database has none of this name, or its user may not read it.",
		}
	}
	return outboxcmd.Box{}, err
}

func partOf(ctx context.Context, b outboxcmd.Box) (boxPart, error) {
	part := boxPart{Name: b.Name, IsInbox: b.IsInbox}
	var err error
	if part.Stats, err = ofOutbox(ctx, b.Stats); err != nil {
		return part, err
	}
	part.Held, err = ofOutbox(ctx, func(ctx context.Context) ([]outbox.Held, error) { return b.Held(ctx, maxHeld) })
	return part, err
}

// outboxes lists the outboxes. One that cannot be read, such as that of a newer version, does not hide the others.
func (q *request) outboxes() error {
	ctx, stop := context.WithTimeout(q.r.Context(), decisionTime)
	defer stop()
	all, err := q.boxes(ctx)
	if err != nil {
		return err
	}
	var parts []boxPart
	for _, b := range all {
		part, err := partOf(ctx, b)
		if part.Failed = err != nil; part.Failed {
			q.options.Log.Error("dashboard: an outbox cannot be read", "outbox", b.Name, "error", err)
		}
		parts = append(parts, part)
	}
	return q.render(http.StatusOK, "outboxes", "Outboxes", "outboxes", parts)
}

// outboxPage is the data of the page of one outbox.
type outboxPage struct {
	boxPart
	Letters []outbox.Letter
	First   bool  // page
	Next    int64 // the ID behind which the next page begins; 0: this is the last
	Most    int   // letters in one decision
}

// outbox shows what holds one outbox up, and its dead letters, without their bodies.
func (q *request) outbox() error {
	ctx := q.r.Context()
	b, err := q.box(ctx, q.r.PathValue("box"))
	if err != nil {
		return err
	}
	after, _ := strconv.ParseInt(q.r.FormValue("after"), 10, 64) // 0, from the oldest on, if it is none
	data := outboxPage{First: after <= 0, Most: maxDecisions}
	if data.boxPart, err = partOf(ctx, b); err != nil {
		return err
	}
	data.Letters, err = ofOutbox(ctx, func(ctx context.Context) ([]outbox.Letter, error) {
		return b.PeekDead(ctx, after, lettersPerPage+1)
	})
	if err != nil {
		return err
	}
	if len(data.Letters) > lettersPerPage {
		data.Letters = data.Letters[:lettersPerPage]
		data.Next = data.Letters[lettersPerPage-1].ID
	}
	return q.render(http.StatusOK, "outbox", "Outbox "+b.Name, "outboxes", data)
}

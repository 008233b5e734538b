package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// chart is a timeline that is drawn: a time axis, a row for each connection, and in it a bar for each exchange.
type chart struct {
	ID            string
	Width, Height int
	Left, Right   int // of the time axis
	Foot          int // where the rows end
	Ticks         []tick
	Tracks        []track
	Bars          []bar
	More          int // exchanges that are not drawn
	Title         string
}

type tick struct {
	X    int
	Text string
}

// track is what came by one connection.
type track struct {
	Y, Height int
	Name      string
	Odd       bool
}

type bar struct {
	told
	Y              int     // middle of the row
	X, Width, EndX float64 // of the bar
	Short          string  // key
	Colour         string  // class of the key
	Kind           string  // class of the answer
	TextX          float64
	Anchor         string
	Body           string // as much of the answer as there is room for
}

const (
	chartWidth = 960
	axisLeft   = 424
	axisRight  = 944
	rowHeight  = 26
	headHeight = 34
	maxRows    = 60
	keyColours = 6
)

// draw lays out the timeline of an outcome.
func draw(o probe.Outcome, seen probe.Observed) *chart {
	all := exchangesOf(o, seen)
	if len(all) == 0 {
		return nil
	}
	// Exchanges are numbered as they end; they are drawn as they began.
	slices.SortStableFunc(all, func(a, b told) int { return a.SentAt.Compare(b.SentAt) })
	c := &chart{
		ID: anchorOf(o.Route, o.ID), Width: chartWidth, Left: axisLeft, Right: axisRight,
		Title: fmt.Sprintf("Timeline of %s: %d requests", line(o.ID), len(all)),
	}
	if len(all) > maxRows {
		all, c.More = all[:maxRows], len(all)-maxRows
	}
	s := scaleOf(all)
	c.Ticks = s.ticks()
	colours := map[string]string{}
	y := headHeight
	for i, group := range byConnection(all) {
		c.Tracks = append(c.Tracks, track{
			Y: y, Height: len(group) * rowHeight, Name: connectionName(group[0]),
			Odd: i%2 == 1,
		})
		for _, e := range group {
			c.Bars = append(c.Bars, s.bar(e, y+rowHeight/2, colourOfKey(colours, e.Key)))
			y += rowHeight
		}
	}
	c.Foot, c.Height = y, y+8
	return c
}

// byConnection groups exchanges by their connection. An exchange without a connection gets a group of its own.
func byConnection(all []told) (groups [][]told) {
	at := map[int]int{}
	for _, e := range all {
		if i, ok := at[e.Connection]; ok && e.Connection != 0 {
			groups[i] = append(groups[i], e)
			continue
		}
		at[e.Connection] = len(groups)
		groups = append(groups, []told{e})
	}
	return groups
}

// connectionName returns the label of a group of the timeline.
func connectionName(e told) string {
	if e.Connection == 0 {
		return "–"
	}
	return fmt.Sprint(e.Connection)
}

// colourOfKey gives each key a colour, in the order in which they come.
func colourOfKey(given map[string]string, key string) string {
	if key == "" {
		return "nokey"
	}
	if given[key] == "" {
		given[key] = fmt.Sprintf("k%d", len(given)%keyColours)
	}
	return given[key]
}

// scale maps instants to the time axis.
type scale struct {
	from time.Time
	span time.Duration
}

// scaleOf returns a scale from the first request to the last answer.
func scaleOf(all []told) scale {
	from, to := all[0].SentAt, all[0].EndedAt
	for _, e := range all {
		if e.SentAt.Before(from) {
			from = e.SentAt
		}
		if e.EndedAt.After(to) {
			to = e.EndedAt
		}
	}
	return scale{from, max(to.Sub(from), time.Microsecond)}
}

// x returns the position of a time.
func (s scale) x(at time.Time) float64 {
	part := float64(at.Sub(s.from)) / float64(s.span)
	return math.Round((axisLeft+part*(axisRight-axisLeft))*10) / 10
}

// ticks returns four to eight round times.
func (s scale) ticks() (all []tick) {
	step := math.Pow(10, math.Floor(math.Log10(float64(s.span))))
	for _, part := range []float64{1, 0.5, 0.2} {
		if float64(s.span)/(step*part) >= 4 {
			step *= part
			break
		}
	}
	for at := 0.0; at <= float64(s.span); at += step {
		d := time.Duration(at)
		all = append(all, tick{int(s.x(s.from.Add(d))), inWords(d)})
	}
	if all[0].Text = "0"; len(all) > 9 {
		return all[:9]
	}
	return all
}

// bar places an exchange, with its answer beside the bar if there is room.
func (s scale) bar(e told, y int, colour string) bar {
	b := bar{
		told: e, Y: y, X: s.x(e.SentAt), EndX: s.x(e.EndedAt), Colour: colour, Kind: kindOf(e),
		Short: shortKey(e.Key), Anchor: "start",
	}
	b.Width = max(3, b.EndX-b.X)
	b.EndX = b.X + b.Width
	b.Label = cut(e.Label, 30)
	if e.Caller != "" {
		b.Label = cut(e.Label, 26)
	}
	need := float64(10 + 8*len(e.Result))
	switch after, before := axisRight-b.EndX-need, b.X-axisLeft-need; {
	case after > 0 && after >= min(before, 120):
		b.TextX, b.Body = b.EndX+6, fitting(e, after)
	case before > 0:
		b.TextX, b.Anchor, b.Body = b.X-6, "end", fitting(e, before)
	default: // a bar from end to end has its text inside
		b.TextX, b.Anchor, b.Body = b.X+8, "inside", fitting(e, b.Width-need)
	}
	return b
}

// kindOf returns the class of an answer in the style sheet.
func kindOf(e told) string {
	switch {
	case e.Status == 0:
		return "none"
	case e.Status < 400:
		return "good"
	case e.Status < 500:
		return "bad"
	}
	return "ugly"
}

// fitting returns the part of an answer's body that fits into the room.
func fitting(e told, room float64) string {
	text := e.answerBody()
	if e.Error != "" {
		text = e.Error
	}
	if room < 60 {
		return ""
	}
	return cut(text, int(room/6.7))
}

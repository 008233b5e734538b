// Package plots draws what the benchmark has measured as SVG, for docs/performance.md.
package plots

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Plot is a picture with the points of some figures.
type Plot struct {
	// Name is the file's name, without .svg, and that of Point.Plot.
	Name string
	// Title says what is shown, X and Y what the axes mean, with their units.
	Title, X, Y string
	// Hops draws the series side by side on the horizontal axis, and a mark for each percentile. Otherwise each series
	// is a line, and both axes are logarithmic.
	Hops bool
}

// The names of the plots.
const (
	SQLite         = "throughput-sqlite"
	Postgres       = "throughput-postgres"
	MySQL          = "throughput-mysql"
	RedisAlways    = "throughput-redis-always"
	RedisEverySec  = "throughput-redis-everysec"
	Hops           = "latency-per-hop"
	Growth         = "claim-by-records"
	pairsPerSecond = "pairs per second (a claim and a completion)"
)

// All returns all plots, in the order in which they are on the page.
func All() []Plot {
	throughput := func(name, what string) Plot {
		return Plot{Name: name, Title: "Throughput by callers: " + what, X: "callers", Y: pairsPerSecond}
	}
	return []Plot{
		throughput(SQLite, "sqlitestore beside a raw log"),
		throughput(Postgres, "pgstore beside two plain statements"),
		throughput(MySQL, "mysqlstore beside two plain statements"),
		throughput(RedisAlways, "redisstore, appendfsync always"),
		throughput(RedisEverySec, "redisstore, appendfsync everysec"),
		{Name: Hops, Title: "Latency that a hop adds", X: "hop", Y: "milliseconds added", Hops: true},
		{Name: Growth, Title: "A claim among more and more records", X: "records in the store", Y: "p50 of a claim, microseconds"},
	}
}

// Named returns the plot of that name.
func Named(name string) (Plot, error) {
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
	}
	return Plot{}, fmt.Errorf("no plot %q", name)
}

// series are the points of one name, by X.
type series struct {
	name   string
	points []figure.Point
}

// of returns the series of the plot, in the order in which they were measured.
func (p Plot) of(figures []figure.Figure) (all []series) {
	for _, f := range figures {
		for _, point := range f.Points {
			if point.Plot != p.Name {
				continue
			}
			i := slices.IndexFunc(all, func(s series) bool { return s.name == point.Series })
			if i < 0 {
				i, all = len(all), append(all, series{name: point.Series})
			}
			all[i].points = append(all[i].points, point)
		}
	}
	for _, s := range all {
		slices.SortStableFunc(s.points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return all
}

// xs returns the places on the horizontal axis that have a point, in order.
func xs(all []series) []float64 {
	set := map[float64]bool{}
	for _, s := range all {
		for _, p := range s.points {
			set[p.X] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Table returns the plot's points as a table in Markdown, empty if there are none: each median with its spread.
func (p Plot) Table(figures []figure.Figure) string {
	all := p.of(figures)
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	head, line := []string{p.X}, []string{"---"}
	columns := xs(all)
	for _, x := range columns {
		head, line = append(head, p.xText(x)), append(line, "---:")
	}
	row(head...)
	row(line...)
	for _, s := range all {
		cells := []string{s.name}
		for _, x := range columns {
			i := slices.IndexFunc(s.points, func(p figure.Point) bool { return p.X == x })
			if i < 0 {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, s.points[i].String())
		}
		row(cells...)
	}
	return b.String()
}

// xText formats a place on the horizontal axis.
func (p Plot) xText(x float64) string {
	if p.Hops {
		return "p" + strconv.FormatFloat(x, 'f', -1, 64)
	}
	return rounded(x)
}

// rounded formats a number with three digits: 500, 10k, 2.5M.
func rounded(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // what it has formatted is a number
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// A colour has a value for pages with a light background, which is in the picture, and one for those with a dark one,
// which a style sheet puts in its place. They are those of the other pictures in docs.
type colour struct{ light, dark string }

var (
	background = colour{"#FFFFFF", "#0D1117"}
	ink        = colour{"#1F2328", "#E6EDF3"}
	muted      = colour{"#59636E", "#9198A1"}
	grid       = colour{"#D1D9E0", "#3D444D"}
)

// palette returns the colours of series, in order: ours comes first.
func palette() []colour {
	return []colour{
		{"#0969DA", "#58A6FF"},
		{"#CF222E", "#F85149"},
		{"#1A7F37", "#3FB950"},
		{"#9A6700", "#D29922"},
		{"#8250DF", "#BC8CFF"},
		{"#BF3989", "#F778BA"},
	}
}

// styled adds the title for readers that do not see the picture, and the style sheet for dark pages.
func styled(svg, title string) (string, error) {
	head, body, ok := strings.Cut(svg, "\txmlns:xlink=\"http://www.w3.org/1999/xlink\">\n")
	_, head, cut := strings.Cut(head, "<svg ")
	if !ok || !cut {
		return "", fmt.Errorf("the drawing library writes another head of an SVG: %.300s", svg)
	}
	var style strings.Builder
	style.WriteString("text { font-family: system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', " +
		"sans-serif !important; }\n@media (prefers-color-scheme: dark) {\n")
	for _, c := range append([]colour{background, ink, muted, grid}, palette()...) {
		for _, property := range []string{"fill", "stroke"} {
			fmt.Fprintf(&style, "[style*=\"%s:%s\"] { %[1]s: %[3]s !important; }\n", property, c.light, c.dark)
		}
	}
	style.WriteString("}\n")
	return "<svg role=\"img\" " + strings.TrimSpace(head) + ">\n<title>" + html.EscapeString(title) + "</title>\n<style>\n" +
		style.String() + "</style>\n" + body, nil
}

package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/retrysafe/retrysafe/bench/figure"
)

const (
	width, height = vg.Length(550), vg.Length(340)
	margin        = vg.Length(12)
	legendWidth   = vg.Length(150)
	captionHeight = vg.Length(26)
)

// Draw returns the picture, or nil if no figure has a point for it. The caption's lines are below it. The same figures
// give the same bytes.
func (p Plot) Draw(figures []figure.Figure, caption ...string) ([]byte, error) {
	all := p.of(figures)
	if len(all) == 0 {
		return nil, nil
	}
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("draw %s: %w", p.Name, err) }
	chart := plot.New()
	chart.BackgroundColor = background.value()
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Color = ink.value()
	legend.TextStyle.Font.Size, legend.Padding = 10, 4
	lines := plotter.NewGrid()
	lines.Vertical.Width = 0
	lines.Horizontal.Color, lines.Horizontal.Width = grid.value(), 0.5
	chart.Add(lines) // first, so that it is below the points
	if err := p.fill(chart, &legend, all); err != nil {
		return fail(err)
	}
	p.axes(chart, all)

	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	canvas.SetColor(background.value())
	canvas.Fill(whole.Path())
	chart.Draw(draw.Crop(whole, margin, -legendWidth-margin, margin+captionHeight, -margin))
	legend.Draw(draw.Crop(whole, width-legendWidth, -margin, margin, -margin-24))
	small := legend.TextStyle
	small.Color, small.Font.Size = muted.value(), 9
	for i, line := range caption {
		whole.FillText(small, vg.Point{X: margin, Y: captionHeight - vg.Length(i)*12}, line)
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fail(err)
	}
	text, err := styled(b.String(), p.Title)
	if err != nil {
		return fail(err)
	}
	return []byte(text), nil
}

// value returns the colour for light pages.
func (c colour) value() color.Color {
	var v color.NRGBA
	_, _ = fmt.Sscanf(c.light, "#%02X%02X%02X", &v.R, &v.G, &v.B)
	v.A = 255
	return v
}

// line is a line with the marks and the error bars of its points.
type line struct {
	plotter.XYs
	plotter.YErrors
}

// add adds the median, with the ends of the spread as its errors.
func (l *line) add(x float64, s figure.Samples) {
	m := s.Median()
	lo, hi := s.Spread()
	l.XYs = append(l.XYs, plotter.XY{X: x, Y: m})
	l.YErrors = append(l.YErrors, struct{ Low, High float64 }{m - lo, hi - m})
}

// fill adds the lines to the chart, and their names to the legend.
func (p Plot) fill(chart *plot.Plot, legend *plot.Legend, all []series) error {
	if !p.Hops {
		for i, s := range all {
			var l line
			for _, point := range s.points {
				l.add(point.X, point.Samples)
			}
			if err := l.addTo(chart, legend, s.name, i, true); err != nil {
				return err
			}
		}
		return nil
	}
	percentiles := xs(all)
	for i, x := range percentiles {
		var l line
		for at, s := range all {
			for _, point := range s.points {
				if point.X == x { // beside each other, so that bars do not cover bars
					l.add(float64(at)+0.15*(float64(i)-float64(len(percentiles)-1)/2), point.Samples)
				}
			}
		}
		if err := l.addTo(chart, legend, p.xText(x), i, false); err != nil {
			return err
		}
	}
	return nil
}

func (l line) addTo(chart *plot.Plot, legend *plot.Legend, name string, i int, connected bool) error {
	c := palette()[i%len(palette())].value()
	shapes := []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{}, draw.RingGlyph{},
	}
	bars, err := plotter.NewYErrorBars(l)
	if err != nil {
		return err
	}
	bars.Color, bars.Width = c, 1
	lines, marks, err := plotter.NewLinePoints(l)
	if err != nil {
		return err
	}
	lines.Color, lines.Width = c, 1.5
	marks.Color, marks.Radius, marks.Shape = c, 3, shapes[i%len(shapes)]
	chart.Add(bars, marks)
	if connected {
		chart.Add(lines)
		legend.Add(name, lines, marks)
	} else {
		legend.Add(name, marks)
	}
	return nil
}

// axes gives the chart its title, its axes and a grid.
func (p Plot) axes(chart *plot.Plot, all []series) {
	chart.Title.Text, chart.X.Label.Text, chart.Y.Label.Text = p.Title, p.X, p.Y
	chart.Title.Padding = 8
	chart.Title.TextStyle.Color, chart.Title.TextStyle.Font.Size = ink.value(), 12
	for _, a := range []*plot.Axis{&chart.X, &chart.Y} {
		a.Color, a.Tick.Color = muted.value(), muted.value()
		a.Label.TextStyle.Color, a.Label.TextStyle.Font.Size = ink.value(), 10
		a.Tick.Label.Color, a.Tick.Label.Font.Size = ink.value(), 9
		a.Padding = 4
	}
	if p.Hops {
		names := make([]string, len(all))
		for i, s := range all {
			names[i] = strings.ReplaceAll(s.name, ", ", ",\n")
		}
		chart.NominalX(names...)
		chart.X.Min, chart.X.Max = -0.5, float64(len(all))-0.5
		chart.X.Color, chart.Y.Min = muted.value(), 0
	} else {
		chart.X.Scale, chart.Y.Scale = plot.LogScale{}, plot.LogScale{}
		chart.X.Tick.Marker = p.xTicks(xs(all))
		chart.X.Min, chart.X.Max = chart.X.Min/1.3, chart.X.Max*1.3
		chart.Y.Min, chart.Y.Max = roundDown(chart.Y.Min), roundUp(chart.Y.Max)
		chart.Y.Tick.Marker = plot.TickerFunc(logTicks)
	}
}

// steps are the round numbers of a decade.
func steps() []float64 { return []float64{1, 2, 5} }

// xTicks returns a tick for each place on a logarithmic axis. Those that are close to another have no label; powers of ten
// keep theirs.
func (p Plot) xTicks(places []float64) (ticks plot.ConstantTicks) {
	const apart = 2.5 // times as far from zero
	var labelled []float64
	for _, powers := range []bool{true, false} {
		for _, x := range places {
			isPower := math.Log10(x) == math.Trunc(math.Log10(x))
			isClose := slices.ContainsFunc(labelled, func(y float64) bool { return max(x/y, y/x) < apart })
			if isPower == powers && !isClose {
				labelled = append(labelled, x)
			}
		}
	}
	for _, x := range places {
		tick := plot.Tick{Value: x}
		if slices.Contains(labelled, x) {
			tick.Label = p.xText(x)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}

// logTicks returns the round numbers between both ends.
func logTicks(least, most float64) (ticks []plot.Tick) {
	for decade := math.Pow10(int(math.Floor(math.Log10(least)))); decade <= most; decade *= 10 {
		for _, step := range steps() {
			if v := decade * step; v >= least*0.999 && v <= most*1.001 {
				tick := plot.Tick{Value: v, Label: rounded(v)}
				if step > 1 && most/least > 1000 {
					tick.Label = "" // the labels of each step would be too close to each other
				}
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}

// roundDown returns the largest round number that is not above v.
func roundDown(v float64) float64 {
	decade := math.Pow10(int(math.Floor(math.Log10(v))))
	best := decade
	for _, step := range steps() {
		if decade*step <= v {
			best = decade * step
		}
	}
	return best
}

// roundUp returns the smallest round number that is not below v.
func roundUp(v float64) float64 {
	decade := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, step := range append(steps(), 10) {
		if decade*step >= v {
			return decade * step
		}
	}
	return decade * 10
}

package report

import (
	"html/template"
	"io"

	"github.com/retrysafe/retrysafe/probe"
)

// Badge writes an SVG for a README: the verdict of the score, as "retry-safe: yes" in green, "no" in red, "not shown"
// in brown.
func Badge(w io.Writer, r *probe.Report) error {
	safe := Safe(r)
	value, colour := safe.Verdict, "#1a7f37"
	switch {
	case safe.Verdict == No:
		colour = "#b3261e"
	case safe.Verdict == NotShown:
		colour = "#8a5a00"
	case ofDraft(r) && Draft(r).OK():
		value += " · ietf: " + Draft(r).Verdict
	}
	b := badge{
		Name: safe.Name, Value: value, Colour: colour, NameWidth: badgeWidth(safe.Name),
		ValueWidth: badgeWidth(value),
	}
	b.Width, b.NameAt, b.ValueAt = b.NameWidth+b.ValueWidth, b.NameWidth/2, b.NameWidth+b.ValueWidth/2
	b.NameLong, b.ValueLong = b.NameWidth-padding, b.ValueWidth-padding
	return badgeForm().Execute(w, b)
}

type badge struct {
	Name, Value, Colour          string
	Width, NameWidth, ValueWidth int
	NameAt, ValueAt              int // middles
	NameLong, ValueLong          int // of the texts
}

// padding is the space beside a text of a badge, left and right together.
const padding = 14

// badgeWidth returns the width of a field of the badge. The SVG fits the text to it, whatever font the viewer has.
func badgeWidth(text string) int {
	w := 0.0
	for _, c := range text {
		switch c {
		case 'i', 'l', 't', 'f', 'r', ',', ' ', '/', '-', '·':
			w += 4.6
		default:
			w += 7.2
		}
	}
	return int(w) + padding
}

// badgeForm returns the template of the badge.
func badgeForm() *template.Template {
	return template.Must(template.New("badge").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="20" viewBox="0 0 {{.Width}} 20" role="img" aria-label="{{.Name}}: {{.Value}}">
<title>{{.Name}}: {{.Value}}</title>
<clipPath id="r"><rect width="{{.Width}}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{{.NameWidth}}" height="20" fill="#3b4148"/><rect x="{{.NameWidth}}" width="{{.ValueWidth}}" height="20" fill="{{.Colour}}"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">
<text x="{{.NameAt}}" y="14" textLength="{{.NameLong}}" lengthAdjust="spacingAndGlyphs">{{.Name}}</text>
<text x="{{.ValueAt}}" y="14" textLength="{{.ValueLong}}" lengthAdjust="spacingAndGlyphs">{{.Value}}</text>
</g>
</svg>
`))
}

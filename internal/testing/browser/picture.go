//go:build unix

package browser

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// Picture returns the whole page as a PNG.
func (b *Page) Picture() []byte {
	b.Helper()
	return b.PictureOf("html")
}

// PictureOf returns an element of the page, with a margin, as a PNG.
func (b *Page) PictureOf(selector string) []byte {
	b.Helper()
	var box struct {
		Result struct {
			Value struct{ X, Y, Width, Height float64 }
		}
	}
	b.Call("Runtime.evaluate", map[string]any{"returnByValue": true, "expression": `(() => {
		const r = document.querySelector('` + selector + `').getBoundingClientRect(), page = document.documentElement
		const X = Math.max(0, r.left + scrollX - 20), Y = Math.max(0, r.top + scrollY - 20)
		return {X, Y, Width: Math.min(page.scrollWidth, r.right + scrollX + 20) - X,
			Height: Math.min(page.scrollHeight, r.bottom + scrollY + 20) - Y}
	})()`}, &box)
	at := box.Result.Value
	var out struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": at.X, "y": at.Y, "width": at.Width, "height": at.Height, "scale": 1},
	}, &out)
	taken, err := base64.StdEncoding.DecodeString(out.Data)
	must(b.T, err)
	small, err := smaller(taken)
	must(b.T, err)
	return small
}

// smaller returns a PNG with the 256 colours that it has most often, and for every other pixel the nearest of them.
// Pages have few colours; what is lost is shades at the edges of letters.
func smaller(taken []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	each(full, func(_, _ int, c color.RGBA) { count[c]++ })
	often := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range often[:min(len(often), 256)] {
		palette = append(palette, c)
	}
	few, nearest := image.NewPaletted(full.Bounds(), palette), map[color.RGBA]uint8{}
	each(full, func(x, y int, c color.RGBA) {
		if _, known := nearest[c]; !known {
			nearest[c] = uint8(palette.Index(c)) //nolint:gosec // a palette has at most 256 colours
		}
		few.SetColorIndex(x, y, nearest[c])
	})
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}

func each(picture image.Image, do func(x, y int, c color.RGBA)) {
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			do(x, y, color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA))
		}
	}
}

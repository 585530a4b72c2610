package chart

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"text/template"
)

// The layout of a chart, in pixels. Its columns are the names of the groups, the labels of the bars,
// the plot, and the texts of the bars.
const (
	groupWidth = 125
	labelWidth = 140
	plotBegin  = groupWidth + labelWidth
	plotWidth  = 370
	textWidth  = 65
	chartWidth = plotBegin + plotWidth + textWidth
	rowHeight  = 15
	groupGap   = 6
	topMargin  = 34
	axisHeight = 30
)

// drawing is a chart as its elements, from top to bottom.
type drawing struct {
	Width, Height int
	Title, Short  string
	Bottom        int // of the plot
	Ticks         []drawnTick
	Texts         []drawnText
	Bars          []drawnBar
}

type (
	drawnTick struct {
		X    float64
		Text string
		Zero bool
	}
	drawnText struct {
		X, Y  float64
		Class string
		Text  string
	}
	drawnBar struct {
		X, Y, Width float64
		Class       string
	}
)

// SVG draws the chart. The same chart gives the same bytes.
func (c Chart) SVG() string {
	s := c.scale()
	d := drawing{Width: chartWidth, Title: c.Title, Short: c.Short}
	y := topMargin
	text := func(x int, class, words string) {
		d.Texts = append(d.Texts, drawnText{float64(x), float64(y) + 11, class, words})
	}
	for _, g := range c.Groups {
		text(8, "group", g.Name)
		for _, b := range g.Bars {
			if x, end := s.x(b.From), s.x(b.To); b.Kind != None {
				d.Bars = append(d.Bars, drawnBar{x, float64(y) + 3, max(end-x, 3), string(b.Kind)})
			}
			text(groupWidth, "label", b.Label)
			text(chartWidth-8, "value", b.Text)
			y += rowHeight
		}
		y += groupGap
	}
	d.Bottom = y
	d.Height = y + axisHeight
	for i, v := range s.ticks() {
		words := strconv.FormatFloat(v, 'f', -1, 64)
		if i == 0 {
			words += " " + c.Unit
		}
		d.Ticks = append(d.Ticks, drawnTick{s.x(v), words, v == 0})
	}
	var out strings.Builder
	if err := svgText.Execute(&out, d); err != nil {
		panic(err) // the template fits the type
	}
	return out.String()
}

// scale is from the least to the greatest value, in steps that are round whole numbers.
type scale struct{ least, greatest, step float64 }

// mostSteps is how many steps a scale has at most.
const mostSteps = 6

// scale contains all bars, and zero.
func (c Chart) scale() scale {
	var least, greatest float64
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			least, greatest = min(least, b.From), max(greatest, b.To)
		}
	}
	greatest = max(greatest, least+5) // so that steps are whole numbers
	width := greatest - least
	step := math.Pow(10, math.Floor(math.Log10(width/mostSteps)))
	for _, factor := range []float64{2, 5, 10} {
		if width/step > mostSteps-1 {
			step = factor * math.Pow(10, math.Floor(math.Log10(width/mostSteps)))
		}
	}
	return scale{math.Floor(least/step) * step, math.Ceil(greatest/step) * step, step}
}

func (s scale) x(v float64) float64 {
	return math.Round(10*(plotBegin+plotWidth*(v-s.least)/(s.greatest-s.least))) / 10
}

func (s scale) ticks() (all []float64) {
	for i := math.Round(s.least / s.step); i <= math.Round(s.greatest/s.step); i++ {
		all = append(all, i*s.step+0) // +0: no negative zero
	}
	return all
}

func escaped(words string) (string, error) {
	var out strings.Builder
	err := xml.EscapeText(&out, []byte(words))
	return out.String(), err
}

// svgText has colors for light and dark screens, by the setting of the reader's system. The page
// around the picture may be set differently, so the picture has a background of its own.
var svgText = template.Must(template.New("").Funcs(template.FuncMap{"escaped": escaped}).Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-labelledby="title short">
<title id="title">{{escaped .Title}}</title>
<desc id="short">{{escaped .Short}}</desc>
<style>
.page { fill: #ffffff } .grid { stroke: #d0d7de } .zero { stroke: #57606a } .good { fill: #0969da } .bad { fill: #cf222e } .other { fill: #8c959f }
text { font: 11px system-ui, sans-serif; fill: #24292f } .title, .group { font-weight: 600 } .value { text-anchor: end } .tick { text-anchor: middle }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .grid { stroke: #30363d } .zero { stroke: #8b949e } .good { fill: #58a6ff } .bad { fill: #ff7b72 } .other { fill: #6e7681 } text { fill: #e6edf3 }
}
</style>
<rect class="page" width="{{.Width}}" height="{{.Height}}"/>
<text class="title" x="8" y="20">{{escaped .Title}}</text>
{{range .Ticks}}<line class="{{if .Zero}}zero{{else}}grid{{end}}" x1="{{.X}}" y1="` + strconv.Itoa(topMargin) + `" x2="{{.X}}" y2="{{$.Bottom}}"/>
<text class="tick" x="{{.X}}" y="{{$.Bottom}}" dy="18">{{escaped .Text}}</text>
{{end}}{{range .Bars}}<rect class="{{.Class}}" x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="9" rx="2"/>
{{end}}{{range .Texts}}<text class="{{.Class}}" x="{{.X}}" y="{{.Y}}">{{escaped .Text}}</text>
{{end}}</svg>
`))

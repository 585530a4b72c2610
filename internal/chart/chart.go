// Package chart draws charts of bars as SVG files, for the pages that programs of this repository
// write from their figures: docs/proof.md and docs/benchmarks.md.
package chart

import (
	"errors"
	"os"
	"path/filepath"
)

// Chart has bars in groups, on one scale.
type Chart struct {
	Title  string
	Unit   string
	Short  string // the main point in words, for readers who can't see the picture
	Groups []Group
}

// Group has the bars of one subject, from top to bottom.
type Group struct {
	Name string
	Bars []Bar
}

// Bar reaches from one value to another, and has a text at its end.
type Bar struct {
	Label    string
	From, To float64
	Text     string
	Kind     Kind
}

// Kind is how a bar is drawn.
type Kind string

// The kinds have colors of their own. None has a label and a text, and no bar: there is no value.
const (
	Good  Kind = "good"
	Bad   Kind = "bad"   // what shouldn't be
	Other Kind = "other" // what the good ones are compared with
	None  Kind = ""
)

// Group returns the group of that name, which it adds if there is none.
func (c *Chart) Group(name string) *Group {
	for i := range c.Groups {
		if c.Groups[i].Name == name {
			return &c.Groups[i]
		}
	}
	c.Groups = append(c.Groups, Group{Name: name})
	return &c.Groups[len(c.Groups)-1]
}

// Alt is the text for pages that show the chart.
func (c Chart) Alt() string { return c.Title + ". " + c.Short }

// Replace writes files with pictures to a folder, by their names, and removes the charts that were
// there before.
func Replace(dir string, pictures map[string]string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, file := range old {
		err = errors.Join(err, os.Remove(file))
	}
	err = errors.Join(err, os.MkdirAll(dir, 0o755))
	for name, svg := range pictures {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(svg), 0o644))
	}
	return err
}

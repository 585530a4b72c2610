package kit

import (
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// An operator who takes a lock away ([driver.Breaker]) puts a mark in front of what the holder says
// of itself, where a service keeps that in a value: "!", the breach, and a newline. A label never
// begins with that.
const (
	markBegins = "!"
	markEnds   = "\n"
)

// Marked returns a value with a mark in front of the holder's label.
func Marked(breach locker.Breach, label string) string {
	return markBegins + driver.FormatBreach(breach) + markEnds + label
}

// ReadMarked returns the holder's label and the mark of a value, of whatever text; nil: there is no
// mark.
func ReadMarked(value string) (label string, breach *locker.Breach) {
	text, marked := strings.CutPrefix(value, markBegins)
	if !marked {
		return value, nil
	}
	text, label, _ = strings.Cut(text, markEnds)
	b := driver.ParseBreach(text)
	return label, &b
}

package kit

import (
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// No label begins with this: see driver.Label.
const (
	markBegins = "!"
	markEnds   = "\n"
)

// Marked returns the value of a lock that an operator takes away ([driver.Breaker]), where a service
// keeps the holder's label in a value: the mark is "!", the breach as by [driver.FormatBreach], and a
// newline; then comes the label.
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

package driver

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// Label is what an acquisition says of itself on the service, for people who look: see
// [locker.WithHolder]. A driver writes it with a request that it makes anyway. It never reads it to
// decide whether a lock is held: the lock is, whatever is found in its place. The zero Label says
// nothing.
type Label struct {
	Holder string
	Trace  string    // W3C traceparent; empty: none
	Asked  time.Time // when the acquisition began, by the holder's clock, in milliseconds
}

// LabelOf returns the label of an acquisition that begins now. It is the zero Label if the request
// says that nothing is to be written.
func LabelOf(req locker.Request) Label {
	if holder(&req) == "" {
		return Label{}
	}
	return Label{Holder: req.Holder, Trace: req.Trace, Asked: time.Now()}
}

// holder is what a request says of itself in events and lists.
func holder(req *locker.Request) string {
	if req.Holder == noHolder {
		return ""
	}
	return req.Holder
}

// noHolder is the text of a request that says nothing of itself.
const noHolder = "-"

// lastAsked is the largest time that a label has, in milliseconds since 1970: the end of year 9999,
// after which a time has no text in JSON.
const lastAsked = 253402300799999

// String returns the label as it is written: one line of printable UTF-8 with at most 272 bytes,
// such as
//
//	1795221171926 web-7f9c/4711/reportd
//	1795221171926;00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 web-7f9c/4711/reportd
//
// with the time in milliseconds since 1970, or 0 if it isn't known. The text of the zero Label is
// empty.
func (l Label) String() string {
	asked := l.Asked.UnixMilli()
	if asked < 0 || asked > lastAsked {
		asked = 0
	}
	traced := locker.ValidTrace(l.Trace)
	if asked == 0 && !traced && l.Holder == "" {
		return ""
	}
	var space [272]byte
	text := strconv.AppendInt(space[:0], asked, 10)
	if traced {
		text = append(append(text, ';'), l.Trace...)
	}
	text = append(append(text, ' '), printable(l.Holder, locker.MaxHolder)...)
	return string(text)
}

// ParseLabel reads what String has written. Of any other text it makes a Label whose Holder is the
// beginning of the text. A service may contain anything, so Holder is always printable, whatever
// the text is: at most [locker.MaxHolder] bytes of UTF-8 without control characters.
func ParseLabel(text string) Label {
	head, holder, found := strings.Cut(text, " ")
	number, trace, traced := strings.Cut(head, ";")
	asked, err := strconv.ParseUint(number, 10, 63)
	if !found || err != nil || asked > lastAsked || traced && !locker.ValidTrace(trace) {
		return Label{Holder: printable(text, locker.MaxHolder)}
	}
	label := Label{Holder: printable(holder, locker.MaxHolder), Trace: trace}
	if asked > 0 {
		label.Asked = time.UnixMilli(int64(asked)).UTC() // in another zone the last hours have a year of five digits
	}
	return label
}

// Describe fills in what the label says of a holder or a waiter. A time that the service knows
// stays.
func (l Label) Describe(p *locker.Party) {
	p.Holder, p.Trace = l.Holder, l.Trace
	if p.Asked.IsZero() {
		p.Asked = l.Asked
	}
}

// printable returns the beginning of text in at most limit bytes, with the replacement character
// for what a text for people can't contain.
func printable(text string, limit int) string {
	if len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

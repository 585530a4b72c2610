package locker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// MaxHolder is the longest text of [WithHolder], in bytes.
const MaxHolder = 200

// WithHolder sets what the acquisition says of itself to people who look at the service: [Inspect], events and logs
// show it, and the service's own tools do. It is 1 to [MaxHolder] bytes of UTF-8 without control characters. Without
// this option it is [DefaultHolder]. "-" says nothing: neither a text nor a trace nor a time is written. (On
// Postgres the name of the lock is written all the same, unless labels are off.)
//
// Nothing rests on the text, and it need not be unique: a lock distinguishes holders by random ids. Everybody who may
// read the locks on the service may read it, so it is no place for a secret. It costs no request.
//
// In a URL for [Open] it is the parameter holder, which applies to each acquisition without this option.
func WithHolder(text string) Option {
	return func(r *Request) {
		if wrong := wrongHolder(text); wrong != "" {
			r.fail("holder %.250q: %s", text, wrong)
		}
		r.Holder = text
	}
}

// wrongHolder says what is wrong with a holder's text, in words that don't repeat the text; "" if nothing is wrong.
func wrongHolder(text string) string {
	if text == "" {
		return "it is empty: want a text, such as web-1/4711, or - for none"
	}
	return wrongText(text, MaxHolder)
}

// DefaultHolder returns what an acquisition without [WithHolder] says of itself: HOST/PID/PROGRAM, as in
// web-7f9c/4711/reportd. It is always a valid text. It is computed once.
func DefaultHolder() string { return defaultHolder() }

var defaultHolder = sync.OnceValue(func() string {
	host, _ := os.Hostname() // without a name it is shown as unknown
	var program string
	if len(os.Args) > 0 {
		program = os.Args[0]
	}
	return holderOf(host, os.Getpid(), program)
})

// holderOf shortens host and program so that the text is valid whatever they are.
func holderOf(host string, pid int, program string) string {
	const maxHost, maxProgram = 120, 58 // with two separators, 20 bytes are left for the pid
	if program != "" {
		program = filepath.Base(program)
	}
	return plain(host, maxHost) + "/" + strconv.Itoa(pid) + "/" + plain(program, maxProgram)
}

// plain returns the beginning of text in at most limit bytes, with "?" for what a holder's text can't contain, and "?"
// for nothing.
func plain(text string, limit int) string {
	var b strings.Builder
	for _, r := range text {
		if r == utf8.RuneError || unicode.IsControl(r) {
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			break
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "?"
	}
	return b.String()
}

// labelled adds the holder of a URL to each request, before the caller's options, which may set another one.
// It can be compared: see [AcquireInOrder].
type labelled struct {
	Locker
	holder string
}

func (l labelled) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	return l.Locker.Acquire(ctx, name, append([]Option{WithHolder(l.holder)}, opts...)...)
}

// Unwrap leads [AsLocker] to the locker underneath: names and tokens are the same there.
func (l labelled) Unwrap() Locker { return l.Locker }

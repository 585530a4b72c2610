package locker

import (
	"context"
	"strings"
)

// ContextWithTrace returns a context with the W3C traceparent of the work that it belongs to, as in
//
//	00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//
// An acquisition with this context writes the traceparent on the service, with what it says of
// itself: see [WithHolder]. So a caller that waits for the lock finds in [Party] the trace that
// holds it. A [Tracer] may add the traceparent in Begin. A text that isn't a traceparent of 55
// characters is ignored: the result is ctx.
func ContextWithTrace(ctx context.Context, traceparent string) context.Context {
	if !ValidTrace(traceparent) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// traceKey is the key of the traceparent in a context.
type traceKey struct{}

// TraceFrom returns the traceparent that [ContextWithTrace] has put into ctx or into a context that ctx comes from, the
// innermost one; empty if there is none.
func TraceFrom(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// ValidTrace reports whether text is a W3C traceparent of 55 characters: version, trace id, span id and flags in
// hexadecimal digits in lower case. The version ff and ids that are zero are invalid.
func ValidTrace(text string) bool {
	const like = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(text) != len(like) {
		return false
	}
	for i := range like {
		switch c := text[i]; {
		case like[i] == '-' && c != '-':
			return false
		case like[i] == '0' && (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return text[:2] != "ff" && strings.Trim(text[3:35], "0") != "" && strings.Trim(text[36:52], "0") != ""
}

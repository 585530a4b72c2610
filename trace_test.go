package locker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestContextWithTrace(t *testing.T) {
	if got := locker.TraceFrom(t.Context()); got != "" {
		t.Errorf("TraceFrom = %q without a trace", got)
	}
	ctx, cancel := context.WithCancel(locker.ContextWithTrace(t.Context(), traceparent))
	defer cancel()
	if got := locker.TraceFrom(ctx); got != traceparent {
		t.Errorf("TraceFrom = %q, want %q", got, traceparent)
	}
	inner := strings.Replace(traceparent, "-01", "-00", 1)
	if got := locker.TraceFrom(locker.ContextWithTrace(ctx, inner)); got != inner {
		t.Errorf("TraceFrom = %q, want the innermost, %q", got, inner)
	}
	for _, bad := range []string{
		"", "x", traceparent + "-", traceparent[1:], strings.ToUpper(traceparent), "ff" + traceparent[2:], "0g" + traceparent[2:],
		strings.ReplaceAll(traceparent, "-", "0"), strings.Replace(traceparent, "4bf92f3577b34da6a3ce929d0e0e4736", strings.Repeat("0", 32), 1),
		strings.Replace(traceparent, "00f067aa0ba902b7", strings.Repeat("0", 16), 1), traceparent[:54] + "\n",
	} {
		if got := locker.TraceFrom(locker.ContextWithTrace(ctx, bad)); got != traceparent || locker.ValidTrace(bad) {
			t.Errorf("%q is taken for a traceparent: %q", bad, got)
		}
	}
}

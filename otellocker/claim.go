package otellocker

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencedlock/locker/fence"
)

// CountClaim counts a claim at a fenced storage, and returns err as it is. The claim itself is made by
// a package below fence:
//
//	err := otellocker.CountClaim(ctx, fencepg.Claim(ctx, tx, "invoices/42", lease.Token()))
//	if err != nil {
//		return err
//	}
//
// The attribute locker.outcome of the metric locker.fence.claims is "ok" for nil, "stale" for an
// error that matches [fence.ErrStale], and "error" for any other. A stale claim is one that the
// storage has refused because a newer holder was there: the fence has saved the data.
//
// It is recorded with OpenTelemetry's global meter provider, whatever [Instrument] uses. [Instrument] makes the
// counter begin with zero, so that the first stale claim is an increase: call it after
// [otel.SetMeterProvider].
func CountClaim(ctx context.Context, err error) error {
	option := claimed
	switch {
	case errors.Is(err, fence.ErrStale):
		option = claimedStale
	case err != nil:
		option = claimFailed
	}
	firstClaim.Do(beginClaims) // also where nothing was instrumented, or before the global provider was set
	claims().Add(ctx, 1, option...)
	return err
}

var firstClaim sync.Once

// beginClaims makes the counter begin with zero. A series that appears with the first stale claim doesn't
// increase, as Prometheus sees it; so Instrument calls this long before there is a claim.
func beginClaims() {
	for _, option := range [][]metric.AddOption{claimed, claimedStale, claimFailed} {
		claims().Add(context.Background(), 0, option...)
	}
}

// claims is made when it is first needed. The global provider passes it on to a provider that is set
// later.
var claims = sync.OnceValue(func() metric.Int64Counter {
	c, err := otel.Meter(scope).Int64Counter("locker.fence.claims", metric.WithUnit("{claim}"),
		metric.WithDescription("Claims at fenced storages, by what became of them."))
	if err != nil {
		otel.Handle(err)
	}
	return c
})

var (
	claimed      = outcomeOption("ok")
	claimedStale = outcomeOption("stale")
	claimFailed  = outcomeOption("error")
)

func outcomeOption(outcome string) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(keyOutcome.String(outcome)))}
}

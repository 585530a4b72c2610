package observe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

// An observer of one function, for what a program wants to know of its leases.
func ExampleFunc() {
	l := membackend.New()
	stop, err := locker.Observe(l, observe.Func(func(_ context.Context, e locker.Event) {
		fmt.Println(e.Name, e.Kind)
	}), locker.EventGranted|locker.EventReleased)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	err = locker.Do(context.Background(), l, "nightly-report", func(context.Context, locker.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	l.Close() // waits until the events are delivered
	// Output:
	// nightly-report granted
	// nightly-report released
}

// A log of what goes wrong, and of calls that have to wait.
func ExampleSlog() {
	h := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { // for the output below
			if a.Key == slog.TimeKey || a.Key == "took" {
				return slog.Attr{}
			}
			return a
		},
	})
	server := membackend.NewServer()
	l := membackend.New(membackend.WithServer(server))
	if _, err := locker.Observe(l, observe.Slog(h), 0); err != nil {
		log.Fatal(err)
	}
	server.Fail(fmt.Errorf("connection refused"))
	_, err := l.Acquire(context.Background(), "nightly-report", locker.WithHolder("web-7f9c"))
	fmt.Println(locker.OutcomeOf(err))
	server.Fail(nil)
	l.Close()
	// Unordered output:
	// error
	// level=WARN msg="lock refused" lock.backend=mem lock.name=nightly-report lock.id=1 lock.holder=web-7f9c lock.outcome=error lock.cause="connection refused"
}

// By default, grants and releases have the level Debug. A second observer logs them as Info, so that the holder of a token
// is found in the log later.
func ExampleSlogLevels() {
	h := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { // for the output below
			switch a.Key {
			case slog.TimeKey, "took", "held":
				return slog.Attr{}
			case "token":
				return slog.String("token", "TOKEN")
			}
			return a
		},
	})
	l := membackend.New()
	if _, err := locker.Observe(l, observe.Slog(h), 0); err != nil {
		log.Fatal(err)
	}
	info := observe.SlogLevels(func(locker.Event) slog.Level { return slog.LevelInfo })
	if _, err := locker.Observe(l, observe.Slog(h, info), locker.EventGranted|locker.EventReleased); err != nil {
		log.Fatal(err)
	}

	work := func(context.Context, locker.Lease) error { return nil }
	if err := locker.Do(context.Background(), l, "nightly-report", work, locker.WithHolder("web-7f9c")); err != nil {
		log.Fatal(err)
	}
	l.Close() // waits until the events are delivered
	// Output:
	// level=INFO msg="lock granted" lock.backend=mem lock.name=nightly-report lock.id=1 lock.token=TOKEN lock.holder=web-7f9c
	// level=INFO msg="lock released" lock.backend=mem lock.name=nightly-report lock.id=1 lock.token=TOKEN lock.holder=web-7f9c
}

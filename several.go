package locker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Want is a lock that is wanted together with others: see [AcquireAll].
type Want struct {
	Name string
	Opts []Option // of this lock alone. They come after the options of the call, so they win
}

// Wants returns wants of the names, without options of their own.
func Wants(names ...string) []Want {
	wants := make([]Want, len(names))
	for i, name := range names {
		wants[i].Name = name
	}
	return wants
}

// Item is a lock of one of several Lockers: see [AcquireInOrder].
type Item struct {
	Locker Locker
	Want
}

// AcquireAll acquires several locks of l: all of them, or none. It waits until it has all or ctx is
// done; ctx covers the waiting alone. Each lock has a lease and a token of its own, for its own
// resource. The options opts hold for each of the locks. A want's own options come after them.
//
// Any number of calls may want the same locks, in any order of their wants: they never wait for
// each other in a circle, because a call that waits for a lock holds only locks whose names come
// before, in the order of their bytes. So a caller that holds one of these locks already must not
// ask for a lock whose name comes before the one that it holds. Locks that are free cost one round
// trip in all, because they are asked for at the same time.
//
// If a lock is lost while another one is waited for, all are released, and the call begins again.
// When the call fails, all that it got is released, before it returns or in the background, with
// the retries of any release. The error is the one of Acquire for the lock that failed, and names
// it.
//
// These errors come before anything is sent:
//
//   - [ErrName]: a name is invalid, or it is given twice: the call would wait for itself;
//   - [ErrOption]: there is no want, or an option is invalid;
//   - [ErrOption]: [WithoutRenewal], [WithMaxHold] or [WithMinHold] for any lock: the time would
//     count while other locks are waited for;
//   - [ErrOption]: [NoWait] among a want's own options. It can't hold for one lock alone: a call
//     that waits for a lock holds none that comes after it, and somebody else may take that. As an
//     option of the call it holds for all locks, and the call is [TryAcquireAll].
func AcquireAll(ctx context.Context, l Locker, wants []Want, opts ...Option) (*LeaseSet, error) {
	items := make([]Item, len(wants))
	for i, want := range wants {
		items[i] = Item{l, want}
	}
	s, err := newSeveral(items, opts, func(item Item) any { return item.Name }) // there is one Locker
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.order, func(a, b int) int { return cmp.Compare(wants[a].Name, wants[b].Name) })
	return s.acquire(ctx)
}

// TryAcquireAll is AcquireAll with the option [NoWait]: it asks for all locks once. If one of them
// is held, the others are released, and the error matches [ErrHeld], unless a lock before it has failed.
func TryAcquireAll(ctx context.Context, l Locker, wants []Want, opts ...Option) (*LeaseSet, error) {
	return AcquireAll(ctx, l, wants, append(opts[:len(opts):len(opts)], NoWait())...)
}

// AcquireInOrder is [AcquireAll] for locks of several Lockers, such as two backends during a
// migration. Lockers have no order, so the order of the items is the order in which locks are
// waited for: all programs that want two of these locks must name them in the same order, or they
// may wait for each other until their contexts end. The same lock of the same Locker twice matches
// [ErrName]. Two Lockers on one service aren't recognised, and neither is a Locker that can't be
// compared, such as a struct with a function: there a lock that is named twice waits for itself.
func AcquireInOrder(ctx context.Context, items []Item, opts ...Option) (*LeaseSet, error) {
	s, err := newSeveral(slices.Clone(items), opts, itemKey)
	if err != nil {
		return nil, err
	}
	return s.acquire(ctx)
}

// DoAll runs fn while it holds all the locks. It is [Do] for several locks: the context of fn ends
// when ctx ends and when one of the leases is lost; functions below fn find the leases in it
// ([LeaseFrom] returns the last one in the order of the wants). All are released when fn has
// returned or panicked.
//
// The error is AcquireAll's when there were no leases. Otherwise it is fn's, joined with the error
// of [LeaseSet.Release]. When fn has returned nil, an error matches [ErrLost], [ErrUnconfirmed] or
// both, as one of the leases may be lost, and the removal of another lock not confirmed. If the
// error doesn't match ErrLost, fn's work is valid. If it does, the work is valid if all of it is
// fenced, each resource with the token of its own lease, and a caller that repeats the work needs an
// id of it: see [Do].
func DoAll(
	ctx context.Context, l Locker, wants []Want, fn func(context.Context, *LeaseSet) error,
	opts ...Option,
) (err error) {
	leases, err := AcquireAll(ctx, l, wants, opts...)
	if err != nil {
		return err
	}
	leasesCtx, cancel := WithLeases(ctx, leases)
	defer func() {
		cancel()
		for _, releaseErr := range leases.release(ctx) {
			if releaseErr != nil && !errors.Is(err, releaseErr) {
				err = join(err, releaseErr)
			}
		}
	}()
	return fn(leasesCtx, leases)
}

// WithLeases is [WithLease] for several leases: the context ends with parent or with the first of
// the leases, and its Err reads the clock. The cancel function frees what the context holds, and
// leaves the leases alone. It may be called twice.
func WithLeases(parent context.Context, s *LeaseSet) (context.Context, context.CancelFunc) {
	ctx, cancelAll := context.WithCancel(parent)
	for _, lease := range s.leases {
		ctx, _ = WithLease(ctx, lease) // ends with the one before
	}
	return ctx, cancelAll
}

// several is one call of AcquireAll or AcquireInOrder.
type several struct {
	items  []Item   // as the caller has named them
	opts   []Option // for all of them
	order  []int    // of items, as they are waited for
	noWait bool
}

// newSeveral checks the items. keyOf returns the same key for two items of the same lock.
func newSeveral(items []Item, opts []Option, keyOf func(Item) any) (*several, error) {
	if len(items) == 0 {
		return nil, &Error{Op: "acquire", Err: fmt.Errorf("%w: no lock is named: want at least one", ErrOption)}
	}
	s := &several{items: items, opts: opts, order: make([]int, len(items))}
	seen := make(map[any]bool, len(items))
	for i, item := range items {
		s.order[i] = i
		req, err := Resolve(item.Name, slices.Concat(opts, item.Opts)...)
		own, _ := Resolve(item.Name, item.Opts...) // its error is one of req as well
		key := keyOf(item)
		switch {
		case err != nil:
		case seen[key]:
			err = fmt.Errorf("%w: it is named twice, and would wait for itself", ErrName)
		case req.NoRenewal || req.MaxHold > 0 || req.MinHold > 0:
			err = fmt.Errorf("%w: WithoutRenewal, WithMaxHold and WithMinHold don't go together with other locks: "+
				"the time would count while those are waited for", ErrOption)
		case own.NoWait:
			err = fmt.Errorf("%w: NoWait for one lock of several: give it as an option of the call, for all of them", ErrOption)
		}
		if err != nil {
			return nil, &Error{Op: "acquire", Backend: item.Locker.Guarantees().Backend, Name: item.Name, Err: err}
		}
		seen[key] = true
		s.noWait = s.noWait || req.NoWait
	}
	return s, nil
}

// itemKey is the same for two items of the same lock. A Locker that can't be compared is another
// one each time.
func itemKey(item Item) any {
	type key struct {
		locker any
		name   string
	}
	if !reflect.ValueOf(item.Locker).Comparable() {
		return new(key)
	}
	return key{item.Locker, item.Name}
}

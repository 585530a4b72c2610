package conformance_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// forwards passes inspection and breaks on to the Locker that a decorator is around.
type forwards struct{ locker.Locker }

func (f forwards) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	return locker.Inspect(ctx, f.Locker, name, look)
}

func (f forwards) List(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	return locker.List(ctx, f.Locker, prefix, waiters)
}

func (f forwards) Break(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	return locker.Break(ctx, f.Locker, name, token, b)
}

// looker is a Locker whose inspection is replaced.
type looker struct {
	forwards
	inspect func(ctx context.Context, name string, look locker.Look) (locker.Status, error)       // nil: as below
	list    func(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] // nil: as below
}

func (l looker) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	if l.inspect == nil {
		return l.forwards.Inspect(ctx, name, look)
	}
	return l.inspect(ctx, name, look)
}

func (l looker) List(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	if l.list == nil {
		return l.forwards.List(ctx, prefix, waiters)
	}
	return l.list(ctx, prefix, waiters)
}

// onStatus makes a decorator that changes what Inspect shows.
func onStatus(change func(*locker.Status)) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker {
			return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
				s, err := locker.Inspect(ctx, l, name, look)
				change(&s)
				return s, err
			}}
		}
	}
}

// onList makes a decorator that replaces what List shows.
func onList(list func(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker {
			return looker{forwards: forwards{l}, list: func(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
				for _, err := range locker.List(ctx, l, prefix, waiters) {
					if err != nil {
						return locker.List(ctx, l, prefix, waiters)
					}
				}
				return func(yield func(locker.Status, error) bool) {
					for _, s := range list(ctx, l, prefix, waiters) {
						if !yield(s, nil) {
							return
						}
					}
				}
			}}
		}
	}
}

func statuses(ctx context.Context, l locker.Locker, prefix string, waiters int) (all []locker.Status) {
	for s, err := range locker.List(ctx, l, prefix, waiters) {
		if err == nil {
			all = append(all, s)
		}
	}
	return all
}

// inspectionSabotages are mistakes of a program that looks into a service.
func inspectionSabotages() []sabotage {
	mem := memHarness
	return []sabotage{
		{bug: "former holder is shown", harness: mem(remembersHolder(false)), named: "J64", others: "J65 P1", perhaps: "J67"},
		{bug: "a label that is dropped at hand-off", harness: mem(droppedAtHandOff), named: "J64.1"},
		{bug: "a label is cut at 100 bytes", harness: mem(onStatus(func(s *locker.Status) { cutLabel(s.Holder) })), named: "J64.1"},
		{bug: "a label is shown with its escapes", harness: mem(onStatus(func(s *locker.Status) { escapeLabel(s.Holder) })), named: "J64.1"},
		{bug: "a label of nobody is the former one", harness: mem(formerLabel), named: "J64.1"},
		{bug: "a label has no holder", harness: mem(onStatus(withoutLabel)), named: "J64", others: "J64.1 J64.2"},
		{bug: "Asked is in seconds", harness: mem(onStatus(askedInSeconds)), named: "J64", others: "J64.1"},
		{bug: "label of the Locker's first lease", harness: mem(labelOfLocker), named: "J64.2"},
		{bug: "Inspect of a service that fails shows a free lock", harness: mem(freeWhenDown), named: "J71.2"},
		{bug: "List of a service that fails is empty", harness: mem(emptyWhenDown), named: "J71.2"},
		{bug: "CurrentToken of a service that fails is 0", harness: mem(onToken(noneWhenDown)), named: "J71.2"},
		{bug: "CurrentToken of a service that fails is ErrNotHolder", harness: mem(onToken(notHolderWhenDown)), named: "J71.2"},
		{bug: "dead holder is shown", harness: mem(remembersHolder(true)), named: "J67"},
		{bug: "free for others in milliseconds, shown in seconds", harness: mem(onStatus(inSeconds)), named: "J64", others: "H59 J64.1 J64.2 J65 J70 J74.1 P1 P8.1"},
		{bug: "last waiter is shown first", harness: mem(onStatus(func(s *locker.Status) { slices.Reverse(s.Waiters) })), named: "J65"},
		{bug: "waiters that are not shown are not counted", harness: mem(onStatus(func(s *locker.Status) { s.Waiting = len(s.Waiters) })), named: "J65"},
		{bug: "look by a trial", harness: mem(trial), named: "J66", others: "J71"},
		{bug: "names with braces are not listed", harness: mem(onList(withoutBraces)), named: "J68"},
		{bug: "names are shown as they are stored", harness: mem(onList(escaped)), named: "J68", others: "H59 J70"},
		{bug: "prefix of a list is a pattern", harness: mem(onList(byPattern)), named: "J68"},
		{bug: "a lock is listed twice", harness: mem(onList(twice)), named: "J69", others: "H59 J68 J70 J74.1 P10"},
		{bug: "names that came since the last list are shown only", harness: mem(newestOnly), named: "J69", others: "H59 J68 J70 P10"},
		{bug: "tokens without their base", harness: mem(baseless), named: "J70", others: "H59 J64 J64.1 J64.2 J65 J68 J74.1 P1 P8.1 P10"},
		{bug: "a look ignores its context", harness: mem(unending), named: "J71", others: "J71.1"},
		{bug: "a look times out as its caller", harness: mem(impatientLook), named: "J71.1"},
		{bug: "a look times out with any error", harness: mem(wordlessLook), named: "J71.1"},
		{bug: "a read of the current token ignores its context", harness: mem(unendingToken), named: "J71.1"},
		{bug: "free for others in s, shown in ms", harness: mem(onStatus(inMilliseconds)), named: "J64"},
		{bug: "of a free lock a longer name's holder is shown", harness: mem(byRange), named: "J68"},
		{bug: "holders of longer names are shown as waiters", harness: mem(neighboursWait), named: "J68"},
		{bug: "one page of a list is read", harness: mem(onList(firstPage)), named: "J69"},
		{bug: "Inspect forgets the prefix", harness: forgetsPrefix("Inspect"), named: "H59"},
		{bug: "List forgets the prefix", harness: forgetsPrefix("List"), named: "H59"},
		{bug: "Break forgets the prefix", harness: forgetsPrefix("Break"), named: "H59"},
		{bug: "CurrentToken forgets the prefix", harness: mutated("current-without-prefix"), named: "H59"},
	}
}

// remembersHolder shows a holder until it sees another one: a former holder, or, if by is true, one
// whose lease has ended by time.
func remembersHolder(byTime bool) decorator {
	return func() func(locker.Locker) locker.Locker {
		var mu sync.Mutex
		last := make(map[string]*locker.Party)
		at := make(map[string]time.Time)
		return onStatus(func(s *locker.Status) {
			mu.Lock()
			defer mu.Unlock()
			before := last[s.Key]
			switch {
			case s.Holder != nil:
				last[s.Key], at[s.Key] = s.Holder, time.Now()
			case before != nil && (!byTime || time.Since(at[s.Key]) > 0):
				s.Holder = before
			}
		})()
	}
}

func inSeconds(s *locker.Status) {
	if s.Holder != nil {
		s.Holder.ExpiresIn /= 1000
	}
}

// trial tells whether a lock is held by trying to acquire it.
func trial() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			if look.Slot != 0 {
				return locker.Inspect(ctx, l, name, look)
			}
			if lease, err := locker.TryAcquire(ctx, l, name); err == nil {
				time.Sleep(time.Millisecond) // so that others meet the lock that this holds
				return locker.Status{Name: name, Key: name}, lease.Release(ctx)
			}
			return locker.Inspect(ctx, l, name, look)
		}}
	}
}

func withoutBraces(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status {
	return slices.DeleteFunc(statuses(ctx, l, prefix, waiters), func(s locker.Status) bool { return strings.Contains(s.Name, "}") })
}

func escaped(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status {
	all := statuses(ctx, l, prefix, waiters)
	for i := range all {
		all[i].Name = url.PathEscape(all[i].Name)
	}
	return all
}

func byPattern(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status {
	head, _, _ := strings.Cut(prefix, "[")
	return statuses(ctx, l, strings.TrimRight(head, "/"), waiters)
}

func twice(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status {
	all := statuses(ctx, l, prefix, waiters)
	return append(all, all...)
}

// newestOnly leaves out what the list before has shown.
func newestOnly() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	seen := make(map[string]bool)
	return onList(func(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status {
		mu.Lock()
		defer mu.Unlock()
		var all []locker.Status
		now := make(map[string]bool)
		for _, s := range statuses(ctx, l, prefix, waiters) {
			if now[s.Key] = true; !seen[s.Key] {
				all = append(all, s)
			}
		}
		maps.Copy(seen, now)
		return all
	})()
}

// baseless shows tokens as the storage has them, with a base that Acquire puts on and Inspect
// doesn't.
func baseless() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		based, err := locker.TokenBase(l, 7)
		if err != nil {
			panic(err)
		}
		return looker{forwards: forwards{based}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			return locker.Inspect(ctx, l, name, look)
		}}
	}
}

func unending() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{
			forwards: forwards{l},
			inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
				return locker.Inspect(context.WithoutCancel(ctx), l, name, look)
			},
			list: func(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
				return locker.List(context.WithoutCancel(ctx), l, prefix, waiters)
			},
		}
	}
}

func impatientLook() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return locker.Inspect(ctx, l, name, look)
		}}
	}
}

// wordlessLook doesn't say that a look has ended by a time limit.
func wordlessLook() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			began := time.Now()
			s, err := locker.Inspect(ctx, l, name, look)
			if errors.Is(err, locker.ErrNoAnswer) && ctx.Err() == nil {
				time.Sleep(time.Until(began.Add(5 * time.Second)))
				err = &locker.Error{Op: "inspect", Name: name, Err: errors.New("i/o timeout")}
			}
			return s, err
		}}
	}
}

// droppedAtHandOff shows what a holder says of itself only if it has not waited.
func droppedAtHandOff() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	waited := make(map[string]bool)
	return onStatus(func(s *locker.Status) {
		mu.Lock()
		defer mu.Unlock()
		for _, w := range s.Waiters {
			waited[w.Owner] = true
		}
		if s.Holder != nil && waited[s.Holder.Owner] {
			withoutLabel(s)
		}
	})()
}

func withoutLabel(s *locker.Status) {
	if s.Holder != nil {
		s.Holder.Holder, s.Holder.Trace = "", ""
	}
}

func escapeLabel(p *locker.Party) {
	if p != nil {
		p.Holder = strings.ReplaceAll(p.Holder, "&", `\u0026`)
	}
}

func cutLabel(p *locker.Party) {
	if p != nil && len(p.Holder) > 100 {
		p.Holder = p.Holder[:100]
	}
}

// formerLabel shows what a former holder has said if the present one says nothing.
func formerLabel() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	last := make(map[string]string)
	return onStatus(func(s *locker.Status) {
		mu.Lock()
		defer mu.Unlock()
		if s.Holder != nil && s.Holder.Holder != "" {
			last[s.Name] = s.Holder.Holder
		} else if s.Holder != nil {
			s.Holder.Holder = last[s.Name]
		}
	})()
}

func askedInSeconds(s *locker.Status) {
	if s.Holder != nil {
		s.Holder.Asked = time.Unix(s.Holder.Asked.Unix()/1000, 0)
	}
}

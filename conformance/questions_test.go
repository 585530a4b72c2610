package conformance_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Lockers that answer for a service that has said nothing, or about another lock than the one that
// they are asked about.

// tokenReader is a Locker whose CurrentToken is replaced.
type tokenReader struct {
	forwards
	read func(ctx context.Context, l locker.Locker, name string, slot int) (locker.Token, error)
}

func (r tokenReader) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	return r.read(ctx, r.Locker, name, slot)
}

func onToken(read func(ctx context.Context, l locker.Locker, name string, slot int) (locker.Token, error)) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker { return tokenReader{forwards{l}, read} }
	}
}

// refuses reports whether the service refuses all requests: what the hook Down does.
func refuses(err error) bool {
	return err != nil && strings.Contains(err.Error(), "connection refused")
}

func noneWhenDown(ctx context.Context, l locker.Locker, name string, slot int) (locker.Token, error) {
	token, err := locker.CurrentToken(ctx, l, name, slot)
	if refuses(err) {
		err = nil
	}
	return token, err
}

func notHolderWhenDown(ctx context.Context, l locker.Locker, name string, slot int) (locker.Token, error) {
	token, err := locker.CurrentToken(ctx, l, name, slot)
	if refuses(err) {
		err = locker.ErrNotHolder
	}
	return token, err
}

func freeWhenDown() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			s, err := locker.Inspect(ctx, l, name, look)
			if refuses(err) {
				return locker.Status{Name: name, Slot: look.Slot, Key: name}, nil
			}
			return s, err
		}}
	}
}

func emptyWhenDown() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, list: func(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
			return func(yield func(locker.Status, error) bool) {
				for s, err := range locker.List(ctx, l, prefix, waiters) {
					if refuses(err) || !yield(s, err) {
						return
					}
				}
			}
		}}
	}
}

func doneWhenDown(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := locker.Break(ctx, l, name, token, b)
	if refuses(err) {
		return locker.Effect{Within: time.Minute}, nil
	}
	return effect, err
}

func notHolderAtBreak(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := locker.Break(ctx, l, name, token, b)
	if refuses(err) {
		err = locker.ErrNotHolder
	}
	return effect, err
}

func lowerToken(ctx context.Context, l locker.Locker, name string, slot int) (locker.Token, error) {
	return locker.CurrentToken(ctx, l, strings.ToLower(name), slot)
}

func breakLower(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	return locker.Break(ctx, l, strings.ToLower(name), token, b)
}

// slotInByte leaves the line, and slots that can't be.
func slotInByte(slot int) int {
	if slot > 0 && slot <= locker.MaxPermits {
		return slot % 256
	}
	return slot
}

func breakInByte(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	b.Slot = slotInByte(b.Slot)
	return locker.Break(ctx, l, name, token, b)
}

func sha256Cut(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:4])
}

func md5Cut(name string) string {
	sum := md5.Sum([]byte(name))
	return hex.EncodeToString(sum[len(sum)-4:])
}

// labelOfLocker shows one label for all leases of a Locker, the first that anybody has seen.
func labelOfLocker() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	holders := make(map[string]locker.Locker)
	labels := make(map[locker.Locker]string)
	return func(l locker.Locker) locker.Locker {
		return acquirer{
			forwards{looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
				s, err := locker.Inspect(ctx, l, name, look)
				mu.Lock()
				defer mu.Unlock()
				holder := holders[name]
				if s.Holder == nil || holder == nil {
					return s, err
				}
				if _, ok := labels[holder]; !ok {
					labels[holder] = s.Holder.Holder
				}
				s.Holder.Holder = labels[holder]
				return s, err
			}}},
			func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
				lease, err := l.Acquire(ctx, name, opts...)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					holders[name] = l
				}
				return lease, err
			},
		}
	}
}

// brokenStays answers with the token of a lease that was broken at once until there is another holder.
func brokenStays() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	broken := make(map[string]locker.Token)
	return func(service locker.Locker) locker.Locker {
		return tokenReader{
			forwards{breaker{forwards{service}, func(
				ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
			) (locker.Effect, error) {
				effect, err := locker.Break(ctx, l, name, token, b)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && b.AtOnce && b.Slot == 0 {
					broken[name] = token
				}
				return effect, err
			}}},
			func(ctx context.Context, _ locker.Locker, name string, slot int) (locker.Token, error) {
				token, err := locker.CurrentToken(ctx, service, name, slot)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && token == 0 && slot == 0 {
					token = broken[name]
				}
				return token, err
			},
		}
	}
}

// dropsQueue has all waiters but the first lose their places at a break at once. They come back later,
// as with their next renewal.
func dropsQueue() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	queues := make(map[string][]context.CancelFunc)
	return func(l locker.Locker) locker.Locker {
		return breaker{
			forwards{acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
				if req, err := locker.Resolve(name, opts...); err != nil || req.NoWait || req.Slot != 0 {
					return l.Acquire(ctx, name, opts...)
				}
				place, drop := context.WithCancel(ctx)
				defer drop()
				mu.Lock()
				queues[name] = append(queues[name], drop)
				mu.Unlock()
				lease, err := l.Acquire(place, name, opts...)
				if err == nil || place.Err() == nil || ctx.Err() != nil {
					return lease, err
				}
				time.Sleep(100 * time.Millisecond)
				return l.Acquire(ctx, name, opts...)
			}}},
			func(ctx context.Context, _ locker.Locker, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
				mu.Lock()
				defer mu.Unlock()
				queue := queues[name]
				for i := 2; b.AtOnce && i < len(queue); i++ { // the holder, and the first who waits
					queue[i]()
				}
				return locker.Break(ctx, l, name, token, b)
			},
		}
	}
}

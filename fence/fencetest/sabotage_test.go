package fencetest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencetest"
)

// sabotaged is a storage with one bug: the calls that are set take the place of the good ones.
type sabotaged struct {
	*store
	claim func(resource string, token locker.Token) error
	write func(resource string, token locker.Token, value string) error
}

func (s *sabotaged) Claim(ctx context.Context, resource string, token locker.Token) error {
	if s.claim != nil {
		return s.claim(resource, token)
	}
	return s.store.Claim(ctx, resource, token)
}

func (s *sabotaged) Write(ctx context.Context, resource string, token locker.Token, value string) error {
	if s.write != nil {
		return s.write(resource, token, value)
	}
	return s.store.Write(ctx, resource, token, value)
}

// naive is a storage with its own check, which may lose marks.
type naive struct {
	mu     sync.Mutex
	marks  map[string]locker.Token
	values map[string]string
	stale  func(token, highest locker.Token) bool
	key    func(resource string) string
	apart  bool // latency between the check and the write
	check  bool // of the arguments
}

func newNaive() *naive {
	return &naive{
		marks: make(map[string]locker.Token), values: make(map[string]string), check: true,
		stale: func(token, highest locker.Token) bool { return token < highest },
		key:   func(resource string) string { return resource },
	}
}

func (n *naive) Claim(_ context.Context, resource string, token locker.Token) error {
	if err := fence.Check(resource, token); n.check && err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stale(token, n.marks[n.key(resource)]) {
		return fence.ErrStale
	}
	n.marks[n.key(resource)] = token
	return nil
}

func (n *naive) Write(ctx context.Context, resource string, token locker.Token, value string) error {
	if err := n.Claim(ctx, resource, token); err != nil {
		return err
	}
	if n.apart {
		latency()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.values[n.key(resource)] = value
	return nil
}

func (n *naive) Read(_ context.Context, resource string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.values[n.key(resource)], nil
}

// latency is a service's, and lets others come in between.
func latency() { time.Sleep(rand.N(200 * time.Microsecond)) }

func same(s fencetest.Store) func() (fencetest.Store, error) {
	return func() (fencetest.Store, error) { return s, nil }
}

// Each bug must fail the case that is named with it. Otherwise the suite would prove nothing.
func TestSabotage(t *testing.T) {
	for bug, tc := range map[string]struct {
		fails   string
		harness func() fencetest.Harness
	}{
		"no check": {"mark-only-rises", func() fencetest.Harness {
			n := newNaive()
			n.stale = func(token, highest locker.Token) bool { return false }
			return fencetest.Harness{Open: same(n)}
		}},
		"an equal token is refused": {"mark-only-rises", func() fencetest.Harness {
			n := newNaive()
			n.stale = func(token, highest locker.Token) bool { return token <= highest }
			return fencetest.Harness{Open: same(n)}
		}},
		"any token passes": {"bad-arguments-are-refused", func() fencetest.Harness {
			n := newNaive()
			n.check = false
			return fencetest.Harness{Open: same(n)}
		}},
		"tokens are doubles": {"tokens-are-exact", func() fencetest.Harness {
			n := newNaive()
			n.stale = func(token, highest locker.Token) bool { return float64(token) < float64(highest) }
			return fencetest.Harness{Open: same(n)}
		}},
		"the beginnings of names": {"resources-are-apart", func() fencetest.Harness {
			n := newNaive()
			n.key = func(resource string) string { return resource[:min(len(resource), locker.MaxName-1)] }
			return fencetest.Harness{Open: same(n)}
		}},
		"the ends of names": {"resources-are-apart", func() fencetest.Harness {
			n := newNaive()
			n.key = func(resource string) string { return resource[max(len(resource)-locker.MaxName+1, 0):] }
			return fencetest.Harness{Open: same(n)}
		}},
		"names in lower case": {"resources-are-apart", func() fencetest.Harness {
			n := newNaive()
			n.key = strings.ToLower
			return fencetest.Harness{Open: same(n)}
		}},
		"check and write in two steps": {"claim-and-write-are-one-step", func() fencetest.Harness {
			n := newNaive()
			n.apart = true
			return fencetest.Harness{Open: same(n)}
		}},
		"a write that leaves the mark": {"write-claims", func() fencetest.Harness {
			s := &sabotaged{store: newStore()}
			s.write = func(resource string, token locker.Token, value string) error {
				before := newStore()
				if err := before.Claim(context.Background(), resource, token); err != nil {
					return err
				}
				s.set(resource, value)
				return nil
			}
			return fencetest.Harness{Open: same(s)}
		}},
		"a stale write that writes": {"stale-write-changes-nothing", func() fencetest.Harness {
			s := &sabotaged{store: newStore()}
			s.write = func(resource string, token locker.Token, value string) error {
				s.set(resource, value)
				return s.Claim(context.Background(), resource, token)
			}
			return fencetest.Harness{Open: same(s)}
		}},
		"a claim that does nothing": {"no-update-is-lost", func() fencetest.Harness {
			s := &sabotaged{store: newStore()}
			s.claim = func(resource string, token locker.Token) error {
				latency()
				return fence.Check(resource, token)
			}
			return fencetest.Harness{Open: same(s)}
		}},
		"a mark for each connection": {"claims-are-seen-by-all", func() fencetest.Harness {
			values := newStore()
			return fencetest.Harness{Open: func() (fencetest.Store, error) {
				marks := new(fence.Memory)
				return &sabotaged{
					store: values,
					claim: func(resource string, token locker.Token) error {
						return marks.Claim(context.Background(), resource, token)
					},
					write: func(resource string, token locker.Token, value string) error {
						return marks.Do(resource, token, func() error { values.set(resource, value); return nil })
					},
				}, nil
			}}
		}},
		"the own last claim is remembered": {"claims-are-seen-by-all", func() fencetest.Harness {
			values := newStore()
			return fencetest.Harness{Open: func() (fencetest.Store, error) {
				last := make(map[string]locker.Token)
				return &sabotaged{
					store: values,
					claim: func(resource string, token locker.Token) error {
						if last[resource] == token && token > 0 {
							return nil
						}
						last[resource] = token
						return values.Claim(context.Background(), resource, token)
					},
					write: func(resource string, token locker.Token, value string) error {
						last[resource] = token
						return values.Write(context.Background(), resource, token, value)
					},
				}, nil
			}}
		}},
		"stale for who gave up": {"context-ends-the-claim", func() fencetest.Harness {
			return fencetest.Harness{Open: same(hasty{newStore()})}
		}},
		"marks are lost in a crash": {"marks-survive-a-crash", func() fencetest.Harness {
			n := newNaive()
			return fencetest.Harness{Open: same(n), Crash: func() error { clear(n.marks); return nil }}
		}},
	} {
		t.Run(bug, func(t *testing.T) {
			cases := fencetest.Cases()
			i := slices.IndexFunc(cases, func(c fencetest.Case) bool { return c.Name == tc.fails })
			if i < 0 {
				t.Fatalf("no case is called %s", tc.fails)
			}
			for range 100 { // what goes wrong only now and then
				h := tc.harness()
				if cases[i].Run(t.Context(), &h) != nil {
					return
				}
			}
			t.Errorf("%s passes", tc.fails)
		})
	}
}

// hasty treats the end of a context as a stale token.
type hasty struct{ *store }

func (h hasty) Claim(ctx context.Context, resource string, token locker.Token) error {
	if ctx.Err() != nil {
		return fence.ErrStale
	}
	return h.store.Claim(ctx, resource, token)
}

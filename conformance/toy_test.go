package conformance_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// toy is the simplest lock service: a key for each name, with an owner and a time to live, and
// clients that poll. Without flaws it keeps its few promises and passes the suite. With a flaw it
// has the bug of an existing lock library.
type toy struct {
	flaws flaws

	mu       sync.Mutex
	keys     map[string]*key
	released map[string]bool // owners that were released before they held anything
	last     locker.Token
	counters map[string]locker.Token   // with the flaw resetToken
	marks    map[string]*locker.Breach // of the last keys; with the flaw markOutlives
	ahead    time.Duration             // how far the clock is ahead: the time that a restart took
	random   *rand.Rand                // with the flaw randomToken: the same in each run
	requests int64
	down     bool
	paused   bool
	backlog  []func()
	links    []*toyLink
}

// flaws are bugs in the service's operations, or in what a driver does with the answers.
type flaws struct {
	releaseAny   bool // release without owner check
	renewAny     bool // renew without owner check
	renewCreates bool // renew sets the key, whether it exists or not
	renewGoesOn  bool // the client has its own renewer, which a release doesn't stop

	resetToken  bool // a release deletes the counter with the key
	randomToken bool
	equalTokens bool

	fromReply   bool // the deadline counts from the reply's time
	keepsLonger bool // no flaw: a key outlasts its TTL by keptLonger
	forever     bool // the TTL is not sent
	clientClock bool // keys expire by the clocks of clients, which differ by skew
	clientToken bool // tokens are the time of the client's clock

	asksFirst    bool // an acquire takes two round trips
	pollsOften   bool // a waiter asks again after a few milliseconds
	sessionOwner bool // the owner is the client's, not the acquisition's
	impatient    bool // a renewal that fails is a loss
	trusting     bool // a renewal that fails is ignored
	lapses       bool // a key whose TTL is over needs no release
	forgetful    bool // a release forgets that the acquire may still be on its way
	repeats      bool // an acquire without an answer is sent again, unknown to the release
	staleConn    bool // a broken connection is used once more
	keepsSilent  bool // connections stay in the pool when a request had no answer
	keepsIdle    bool // the connections that were idle meanwhile stay there
	hidesIdle    bool // they stay there below a new one
	waitsOn      bool // a waiter asks again on a connection that the network has forgotten
	releasesOn   bool // a release is sent on the connection of the acquisition, dead or alive

	closesBriefly bool // Close takes a removal without an answer for done
	deaf          bool // the driver declares that it obeys contexts, and ignores them

	renewsInSteps   bool // a renewal looks at the owner, and then sets the key
	releasesInSteps bool // a release looks at the owner, and then deletes the key
	breaksInSteps   bool // a break looks at the token, and then marks or deletes the key
	lastStamp       bool // a renewal of several keys takes a request for each, and the last one's stamp counts for all

	shortestTTL bool // a key of a client has the shortest TTL that the client has asked for

	slotTwice  bool // a slot is granted though somebody has it
	leaksSlots bool // slots never expire

	slotReleaseAny bool // the release of a slot doesn't check the owner
	slotCreates    bool // the renewal of a slot sets the key, whether it exists or not
	slotForgetful  bool // the release of a slot forgets that the acquire may still be on its way
	slotFromReply  bool // the deadline of a slot counts from the reply's time
	slotByName     bool // answers to a renewal are kept by name
	slotAfterHash  bool // the key of a slot is the name, # and the number
	slotInByte     bool // the number of a slot has 8 bits in the key

	digest    func(name string) string // is in the place of the name in the key; nil: the name is
	markStops bool                     // a renewal of several keys stops at one that is marked, and says that all after it are renewed

	sessions      bool // no flaw: every request renews all keys of its client
	noTTL         bool // no flaw: a key lasts until the connection of its client ends
	breakAny      bool // Break doesn't compare the token
	breakDeletes  bool // Break deletes the key, always
	breakWaits    bool // Break marks the key, always
	breakReplaces bool // a second mark replaces the first
	breakForever  bool // a mark ends the key's time to live
	breakOthers   bool // Break at once ends all keys of the client
	marksForgot   bool // a restart forgets marks
	markRevives   bool // a renewal takes the mark away
	markHides     bool // a release doesn't recognise the owner of a marked key
	markOutlives  bool // the mark of a key that is released is the next key's, if that was waited for
	waitedStays   bool // a key that was waited for isn't marked

	acceptTTL bool // a TTL is accepted and ignored
	hasty     bool // the connection of a silent client is ended
}

// skew is how far a clock is wrong: every second clock is fast, the others are slow.
const skew = 100 * time.Millisecond

const keptLonger = 200 * time.Millisecond

type key struct {
	owner   string
	link    *toyLink
	ttl     time.Duration
	expires time.Time
	token   locker.Token
	breach  *locker.Breach // marks the key; nil: it isn't
	waited  bool           // its owner was refused before
}

func newToy(f flaws) *toy {
	return &toy{flaws: f, keys: make(map[string]*key), released: make(map[string]bool), counters: make(map[string]locker.Token), marks: make(map[string]*locker.Breach), random: rand.New(rand.NewPCG(1, 5))}
}

func (s *toy) get(name string, now time.Time) *key {
	k := s.keys[name]
	if k != nil && !now.Before(k.expires) {
		delete(s.keys, name)
		return nil
	}
	return k
}

func (s *toy) set(name, owner string, link *toyLink, ttl time.Duration, now time.Time) {
	if s.flaws.forever || s.flaws.noTTL || s.flaws.leaksSlots && isSlot(name) {
		ttl = 1e6 * time.Hour
	}
	if s.flaws.keepsLonger {
		ttl += keptLonger
	}
	if s.flaws.shortestTTL && link != nil {
		link.ttl = min(cmp.Or(link.ttl, ttl), ttl)
		ttl = link.ttl
	}
	s.keys[name] = &key{owner: owner, link: link, ttl: ttl, expires: now.Add(ttl)}
}

func (s *toy) acquire(name, owner string, link *toyLink, ttl time.Duration, now time.Time) (locker.Token, bool) {
	k := s.get(name, now)
	again := s.flaws.sessionOwner || s.flaws.repeats
	if s.flaws.slotTwice && isSlot(name) {
		k = nil
	}
	if k != nil && (k.owner != owner || !again) || s.released[owner] {
		return 0, false
	}
	s.set(name, owner, link, ttl, now)
	s.keys[name].token = s.mint(name, link)
	return s.keys[name].token, true
}

// granted notes whether the owner of a new key has waited for it.
func (s *toy) granted(name string, waited bool) {
	s.keys[name].waited = waited
	if s.flaws.markOutlives && waited {
		s.keys[name].breach = s.marks[name]
	}
	delete(s.marks, name)
}

func (s *toy) mint(name string, link *toyLink) locker.Token {
	switch {
	case s.flaws.clientToken:
		return locker.Token(time.Now().Add(link.ahead).UnixMilli()<<20 + s.requests) // two requests may come at once
	case s.flaws.resetToken:
		s.counters[name]++
		return s.counters[name]
	case s.flaws.randomToken:
		return 1 + locker.Token(s.random.Int64N(1<<62))
	case s.flaws.equalTokens:
		return 7
	}
	s.last = max(s.last+1, locker.Token(time.Now().Add(s.ahead).UnixMicro()))
	return s.last
}

func (s *toy) renew(name, owner string, ttl time.Duration, now time.Time) error {
	k := s.get(name, now)
	switch {
	case k != nil && k.owner == owner && k.breach != nil && !s.flaws.markRevives:
		return driver.Broken(*k.breach)
	case k == nil && (s.flaws.renewCreates || s.flaws.slotCreates && isSlot(name)):
		s.set(name, owner, nil, ttl, now)
	case k == nil || k.owner != owner && !s.flaws.renewAny:
		return locker.ErrLost
	default:
		s.set(name, k.owner, k.link, ttl, now)
		s.keys[name].token, s.keys[name].waited = k.token, k.waited
	}
	return nil
}

// takeAway marks a key, or deletes it. It reports whether that is the key with this token, and how
// long it lasts at most.
func (s *toy) takeAway(name string, token locker.Token, b locker.Breach, now time.Time) (within time.Duration, found bool) {
	k := s.get(name, now)
	switch {
	case k == nil || k.token != token && !s.flaws.breakAny:
		return 0, false
	case b.AtOnce && !s.flaws.breakWaits || s.flaws.breakDeletes:
		maps.DeleteFunc(s.keys, func(_ string, other *key) bool { return s.flaws.breakOthers && other.link == k.link })
		delete(s.keys, name)
		s.released[k.owner] = true
		if b.AtOnce {
			return 0, true
		}
	case k.waited && s.flaws.waitedStays:
	case k.breach == nil || s.flaws.breakReplaces:
		k.breach = &b
	}
	within = k.expires.Sub(now)
	if s.flaws.breakForever {
		k.expires = now.Add(1e6 * time.Hour)
	}
	if b.AtOnce {
		within = 0
	}
	return within, true
}

func (s *toy) release(name, owner string, now time.Time) {
	anyOwner := s.flaws.releaseAny || s.flaws.slotReleaseAny && isSlot(name)
	if k := s.get(name, now); k != nil && (k.owner == owner || anyOwner) && (k.breach == nil || !s.flaws.markHides) {
		s.marks[name] = k.breach
		delete(s.keys, name)
		delete(s.counters, name)
	} else if !s.flaws.sessionOwner && !s.flaws.forgetful && (!s.flaws.slotForgetful || !isSlot(name)) {
		s.released[owner] = true // its acquire may still be on its way
	}
}

// hangUp ends what is attached to the connection of a client.
func (s *toy) hangUp(link *toyLink) {
	s.locked(func() {
		maps.DeleteFunc(s.keys, func(_ string, k *key) bool { return s.flaws.noTTL && k.link == link })
	})
}

// arrive executes a request, now or when a pause ends.
func (s *toy) arrive(from *toyLink, request func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.keys {
		if s.flaws.sessions && k.link == from && k.breach == nil && s.get(name, time.Now()) != nil {
			k.expires = time.Now().Add(k.ttl)
		}
	}
	if s.paused {
		s.backlog = append(s.backlog, request)
		return
	}
	s.requests++
	request()
}

func (s *toy) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *toy) count() (n int64) {
	s.locked(func() { n = s.requests })
	return n
}

func (s *toy) residue() (left string) {
	s.locked(func() {
		maps.DeleteFunc(s.keys, func(_ string, k *key) bool { return !time.Now().Before(k.expires) })
		left = strings.Join(slices.Sorted(maps.Keys(s.keys)), ", ")
	})
	return left
}

func (s *toy) guarantees() locker.Guarantees {
	g := locker.Guarantees{
		Backend: "toy", Scope: locker.ScopeProcess, Tolerance: locker.ToleranceFailover, Exclusion: locker.ExclusionSingleNode,
		Fencing: locker.FencingUntilDataLoss, Clocks: locker.ClocksServer, Order: locker.OrderNone, Waiting: locker.WaitingPolled,
		// The slack is the longest pause of a poll.
		Expiry:     locker.Expiry{By: locker.ExpiryKey, TTL: true, Slack: 500 * time.Millisecond},
		Revocation: locker.RevocationRenewal, Restart: locker.RestartLeases, Inspection: locker.InspectionNone, Break: locker.BreakSeenAtRenewal, RoundTrips: 1, Cost: locker.CostNone,
	}
	if s.flaws.keepsLonger {
		g.Expiry.Slack += keptLonger
	}
	if s.flaws.noTTL {
		g.Expiry, g.Revocation = locker.Expiry{By: locker.ExpiryConnection}, locker.RevocationUnseen
		g.Break = locker.BreakNone // nothing is renewed
	}
	return g
}

// open makes a client, whose clock may be ahead of the service's.
func (s *toy) open(link *toyLink, ahead ...time.Duration) locker.Locker {
	d := &toyDriver{server: s, link: link, session: driver.NewOwner(), closed: make(chan struct{})}
	for _, by := range ahead {
		link.ahead += by
	}
	s.locked(func() {
		s.links = append(s.links, link)
		if s.flaws.clientClock {
			d.skew = link.ahead + skew
			if len(s.links)%2 == 1 {
				d.skew = link.ahead - skew
			}
		}
	})
	config := driver.Config{TTL: 30 * time.Second, Features: locker.FeatureTTL | locker.FeatureSlots}
	if s.flaws.noTTL {
		config.TTL = 0
	}
	if s.flaws.noTTL && !s.flaws.acceptTTL {
		config.Features = locker.FeatureSlots
	}
	config.ObeysContext = s.flaws.deaf
	l := driver.New(d, config)
	if s.flaws.closesBriefly {
		return closing{forwards{l}, d}
	}
	return l
}

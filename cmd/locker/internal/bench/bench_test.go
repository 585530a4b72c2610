package bench

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
	"github.com/fencedlock/locker/membackend"
)

// service is one in this process, behind a network.
type service struct {
	*membackend.Server
	*membackend.Link
	ttl     time.Duration
	acquire func(s *service, name string) // before each acquisition
}

func (s *service) open(context.Context) (locker.Locker, error) {
	l := membackend.New(membackend.WithServer(s.Server), membackend.WithLink(s.Link), membackend.WithDefaultTTL(s.ttl))
	return disturbed{l, s}, nil
}

func newService(ttl, roundTrip time.Duration) *service {
	s := &service{Server: membackend.NewServer(), Link: membackend.NewLink(), ttl: ttl}
	s.Delay(roundTrip/2, roundTrip/2)
	return s
}

type disturbed struct {
	locker.Locker
	service *service
}

func (d disturbed) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if d.service.acquire != nil {
		d.service.acquire(d.service, name)
	}
	return d.Locker.Acquire(ctx, name, opts...)
}

func (d disturbed) Unwrap() locker.Locker { return d.Locker }

// config is a small load on s.
func config(s *service) Config {
	return Config{Open: s.open, Prefix: "bench/", Leases: 20, Goroutines: 4, Contenders: 3, For: time.Second}
}

// wantNothing fails unless all locks are gone.
func (s *service) wantNothing(t *testing.T) {
	t.Helper()
	if left := s.Residue(); left != "" {
		t.Errorf("left: %s", left)
	}
}

func (r Report) figure(t *testing.T, scenario, name string) float64 {
	t.Helper()
	for _, res := range r.Results {
		for _, f := range res.Figures {
			if res.Scenario == scenario && f.Name == name {
				return f.Value
			}
		}
	}
	t.Fatalf("no figure %q of %q in %+v", name, scenario, r.Results)
	return 0
}

func (r Report) wantVerdict(t *testing.T, level Level, words string) {
	t.Helper()
	if !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Level == level && strings.Contains(v.Text, words) }) {
		t.Errorf("verdicts %+v, want one that is %s and says %q", r.Verdicts, level, words)
	}
}

// wantArrays fails unless JSON has arrays also where there is nothing. Without a result nothing is printed.
func (r Report) wantArrays(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil || len(r.Results) > 0 && strings.Contains(string(text), "null") {
		t.Errorf("JSON %s, %v, want arrays in the place of null", text, err)
	}
}

func TestHealthyService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(10*time.Second, 2*time.Millisecond)
		var steps int
		c := config(s)
		c.Progress = func(Report) { steps++ }
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		s.wantNothing(t)
		r.wantArrays(t) // wake is skipped here
		if r.Bad() || len(r.Verdicts) != 1 {
			t.Errorf("verdicts %+v, want one that is good", r.Verdicts)
		}
		r.wantVerdict(t, Good, "renewals come in time")
		// Acquire and release are a round trip each. Time is exact here.
		for _, test := range []struct {
			scenario, figure string
			want             float64
		}{
			{"open and close", "first acquire", .002},
			{"alone", "cycles", 250}, {"alone", "acquire p50", .002}, {"alone", "release max", .002},
			{"many", "cycles", 1000}, {"many", "acquire p99", .002},
			{"hand-off", "gap p50", .001}, {"hand-off", "Jain's index", 1},
			{"held", "leases", 20}, {"held", "lost", 0}, {"held", "failed renewals", 0},
			{"look", "locks", 20}, {"look", "took", .002},
		} {
			if got := r.figure(t, test.scenario, test.figure); got < .98*test.want || got > 1.02*test.want {
				t.Errorf("%s, %s = %v, want %v", test.scenario, test.figure, got, test.want)
			}
		}
		if min, p1 := r.figure(t, "held", "slack min"), r.figure(t, "held", "slack p1"); min > p1 || min < .6 || p1 > .8 {
			t.Errorf("slack min %v, p1 %v, want both from 0.6 to 0.8", min, p1)
		}
		if r.TTL != 10 || r.Backend != "mem" || r.For != 1 {
			t.Errorf("report %+v, want TTL 10 s on mem", r)
		}
		if want := 1 + len(r.Results); steps != want || want != 8 {
			t.Errorf("%d steps of progress, %d results, want 8 and 7", steps, len(r.Results))
		}
	})
}

func (s *service) refuseFor(d time.Duration) {
	s.RefuseRenewals(errors.New("overloaded"))
	time.AfterFunc(d, func() { s.RefuseRenewals(nil) })
}

// After a renewal that takes long, or has to be repeated, a lease has less time left.
func TestSlowRenewals(t *testing.T) {
	for _, test := range []struct {
		name  string
		ttl   time.Duration
		fault func(*service)
		level Level
		words string
	}{
		{"delayed by 200 ms", 1500 * time.Millisecond, func(s *service) { s.Delay(100*time.Millisecond, 100*time.Millisecond) },
			Note, "renewals are slow, a healthy service leaves 0.65 and more; use a TTL of 3s or find"},
		{"refused for half of the TTL", 10 * time.Second, func(s *service) { s.refuseFor(5400 * time.Millisecond) },
			Note, "one more renewal that hangs loses leases; use a TTL of 20s or find"},
		{"refused for most of the TTL", 10 * time.Second, func(s *service) { s.refuseFor(7400 * time.Millisecond) },
			Bad, "a renewal that hangs loses leases; use a TTL of 40s or find"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(test.ttl, 2*time.Millisecond)
				s.acquire = func(s *service, name string) {
					if name == "bench/held/19" {
						time.AfterFunc(100*time.Millisecond, func() { test.fault(s) })
					}
				}
				r, err := Run(t.Context(), config(s))
				if err != nil {
					t.Fatal(err)
				}
				s.wantNothing(t)
				r.wantVerdict(t, test.level, test.words)
				if r.Bad() != (test.level == Bad) || r.figure(t, "held", "lost") != 0 {
					t.Errorf("verdicts %+v, want that nothing is lost, and bad only where it says so", r.Verdicts)
				}
			})
		})
	}
}

// The network is cut when the last of the leases is asked for, until they are lost.
func TestRenewalsThatAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(2*time.Second, 2*time.Millisecond)
		s.acquire = func(s *service, name string) {
			if name == "bench/held/19" {
				time.AfterFunc(100*time.Millisecond, s.Cut)
				time.AfterFunc(2200*time.Millisecond, func() { s.Heal() })
			}
		}
		r, err := Run(t.Context(), config(s))
		if err != nil {
			t.Fatal(err)
		}
		s.wantNothing(t)
		r.wantVerdict(t, Bad, "20 of 20 leases were lost (service_silent 20): use a TTL of 8s or find what delays renewals")
		r.wantVerdict(t, Note, "renewals failed, the last one with: ")
		r.wantVerdict(t, Bad, "no renewal was confirmed")
		if !r.Bad() || r.figure(t, "held", "lost") != 20 {
			t.Errorf("bad = %v, lost %v, want true and 20", r.Bad(), r.figure(t, "held", "lost"))
		}
	})
}

// A service that fails ends the run with its error.
func TestServiceThatFails(t *testing.T) {
	for _, at := range []string{"bench/first", "bench/alone/0", "bench/many/2", "bench/hand-off", "bench/held/0"} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(2*time.Second, 2*time.Millisecond)
			broken := errors.New("disk is full")
			s.acquire = func(s *service, name string) {
				if name == at {
					s.Fail(broken)
				}
			}
			_, err := Run(t.Context(), config(s))
			if !errors.Is(err, broken) {
				t.Errorf("%s: Run = %v, want %v", at, err, broken)
			}
		})
	}
}

func TestFewerLeasesThanWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(2*time.Second, 2*time.Millisecond)
		full := errors.New("table is full")
		s.acquire = func(s *service, name string) {
			if name == "bench/held/10" {
				s.Fail(full)
				time.AfterFunc(50*time.Millisecond, func() { s.Fail(nil) })
			}
		}
		r, err := Run(t.Context(), config(s))
		if err != nil {
			t.Fatal(err)
		}
		s.wantNothing(t)
		r.wantVerdict(t, Note, " of 20 leases could be acquired: ")
		if n := r.figure(t, "held", "leases"); n < 1 || n > 10 {
			t.Errorf("%v leases, want from 1 to 10", n)
		}
	})
}

// At whatever moment it is interrupted, nothing is left.
func TestInterrupted(t *testing.T) {
	for _, after := range []time.Duration{
		time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 3100 * time.Millisecond, 5 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(10*time.Second, 2*time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			r, err := Run(ctx, config(s))
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLeft) {
				t.Errorf("after %v: Run = %v, want that it was interrupted", after, err)
			}
			s.wantNothing(t)
			r.wantArrays(t)
			if want := min(int(after/time.Second)+1, 4); after >= 500*time.Millisecond && len(r.Results) != want {
				t.Errorf("after %v: %d results, want %d", after, len(r.Results), want)
			}
		})
	}
}

func TestServiceThatOthersUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			locks  int
			shared bool
			want   error
		}{{100, false, nil}, {101, false, ErrShared}, {101, true, nil}} {
			s := newService(time.Minute, 0)
			other, _ := s.open(t.Context())
			for i := range test.locks {
				if _, err := other.Acquire(t.Context(), "invoices/"+strings.Repeat("x", i+1)); err != nil {
					t.Fatal(err)
				}
			}
			s.Delay(time.Millisecond, time.Millisecond)
			c := config(s)
			c.Shared = test.shared
			r, err := Run(t.Context(), c)
			if !errors.Is(err, test.want) || (test.want != nil) != (len(r.Results) == 0) {
				t.Errorf("%+v: Run = %v with %d results", test, err, len(r.Results))
			}
			_ = other.Close()
			s.wantNothing(t)
		}
	})
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	c := Config{
		Open:   func(context.Context) (locker.Locker, error) { return filebackend.New(dir) },
		Prefix: "bench/", Leases: 50, Goroutines: 4, Contenders: 3, For: 200 * time.Millisecond,
	}
	r, err := Run(t.Context(), c)
	if err != nil || r.Bad() {
		t.Fatalf("Run = %v, verdicts %+v", err, r.Verdicts)
	}
	r.wantVerdict(t, Good, "leases never end by time here")
	if r.figure(t, "alone", "cycles") <= 0 || r.figure(t, "hand-off", "grants") <= 0 || r.figure(t, "held", "leases") != 50 {
		t.Errorf("results %+v, want cycles, grants and 50 leases", r.Results)
	}
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for s, err := range locker.List(t.Context(), l, "", 0) {
		t.Errorf("left: %+v, %v", s, err)
	}
}

func TestCheck(t *testing.T) {
	good := Config{Leases: 1, Goroutines: 1, Contenders: 2, For: time.Second}
	if err := good.Check(); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	for want, change := range map[string]func(*Config){
		"--leases 0: want a number from 1 to 100000":     func(c *Config) { c.Leases = 0 },
		"--leases 100001: want a number from 1 to":       func(c *Config) { c.Leases = 100_001 },
		"--goroutines 0: want a number from 1 to 1024":   func(c *Config) { c.Goroutines = 0 },
		"--contenders 1: want a number from 2 to 256":    func(c *Config) { c.Contenders = 1 },
		"--for 1ms: want a time from 100ms to 10m0s":     func(c *Config) { c.For = time.Millisecond },
		"--for 10m1s: want a time from 100ms to 10m0s":   func(c *Config) { c.For = MaxFor + time.Second },
		"--goroutines 2000: want a number from 1 to 102": func(c *Config) { c.Goroutines = 2000 },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Check = %v, want %q", err, want)
		}
	}
}

func TestReportForPeopleAndPrograms(t *testing.T) {
	r := Report{Backend: "redis", Machine: "linux/amd64", TTL: 30, For: 2, Results: []Result{
		{Scenario: "alone", Figures: []Figure{
			{"cycles", 6789.4, "1/s"}, span("acquire p50", 123456), span("acquire p99", 2345678), span("acquire max", 1234567890), {"memory", 7.18e6, "B"}, {"leases", 10000, ""}, {"slack p1", 0.69456, ""},
		}},
		{Scenario: "wake", Skipped: "nobody there"},
	}, Verdicts: []Verdict{note("look at %d", 7), bad("broken")}}
	var text strings.Builder
	text.WriteString(r.Head())
	for _, res := range r.Results {
		text.WriteString(res.Text())
	}
	text.WriteString(r.Text())
	const want = `locker bench on redis, TTL 30s; linux/amd64; about 1m12s
alone           cycles 6789/s, acquire p50 123µs, acquire p99 2.35ms, acquire max 1.23s, memory 7.2 MB, leases 10000, slack p1 0.695
wake            not measured: nobody there

note: look at 7
bad: broken
`
	if text.String() != want {
		t.Errorf("text is\n%s\nwant\n%s", text.String(), want)
	}
	var back Report
	if text, err := json.Marshal(r); err != nil || json.Unmarshal(text, &back) != nil || len(back.Results) != 2 ||
		!strings.Contains(string(text), `{"name":"acquire p50","value":0.000123456,"unit":"s"}`) {
		t.Errorf("JSON %s, %v", text, err)
	}
}

func TestJain(t *testing.T) {
	for _, test := range []struct {
		counts []int
		want   float64
	}{{[]int{5, 5, 5}, 1}, {[]int{9, 0, 0}, 1. / 3}, {[]int{0, 0}, 0}} {
		if got := jain(test.counts); got < test.want-1e-9 || got > test.want+1e-9 {
			t.Errorf("jain(%v) = %v, want %v", test.counts, got, test.want)
		}
	}
}

func TestVerdictsOnTimes(t *testing.T) {
	many := samples[time.Duration]{}
	for range 98 {
		many = append(many, time.Millisecond)
	}
	if v := uneven("alone", append(many, 19*time.Millisecond, 19*time.Millisecond)); v != nil {
		t.Errorf("verdicts %v, want none", v)
	}
	if v := uneven("alone", append(many, 40*time.Millisecond, 40*time.Millisecond)); len(v) != 1 || !strings.HasPrefix(v[0].Text, "alone: p99 of acquire is 40 × p50") {
		t.Errorf("verdicts %v, want one", v)
	}
	b := &bench{guarantees: locker.Guarantees{Order: locker.OrderNone}}
	if v := b.unfair(.5, []int{1, 9}); len(v) != 1 || !strings.Contains(v[0].Text, "Jain's index 0.50, from 1 to 9 grants for each contender: this backend promises no order") {
		t.Errorf("verdicts %v, want one", v)
	}
	b.guarantees.Order = locker.OrderFIFO
	if v := b.unfair(.5, []int{1, 9}); len(v) != 1 || !strings.Contains(v[0].Text, "promises an order") {
		t.Errorf("verdicts %v, want one", v)
	}
}

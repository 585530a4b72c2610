package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// loadRow is a row of acquire + release: each goroutine has its own lock, which nobody else wants.
type loadRow struct {
	goroutines int
	added      time.Duration // to each round trip
}

// goroutineCounts are the numbers of goroutines on the network as it is, and distantCounts those
// with addedRoundTrips.
var (
	goroutineCounts = []int{1, 2, 4, 8, 16, 64, 512}
	distantCounts   = []int{1, 4, 16, 64}
	addedRoundTrips = []time.Duration{500 * time.Microsecond, 5 * time.Millisecond}
)

func (r loadRow) name() string {
	name := fmt.Sprintf("acquire + release, %d goroutines", r.goroutines)
	if r.goroutines == 1 {
		name = "acquire + release alone"
	}
	if r.added > 0 {
		name += fmt.Sprintf(", + %g ms", float64(r.added)/float64(time.Millisecond))
	}
	return name
}

func loadName(n int) string { return loadRow{goroutines: n}.name() }

// weight is the row's part of the time. Many goroutines need longer rounds.
func (r loadRow) weight() float64 {
	switch {
	case r.goroutines >= 512:
		return 6
	case r.goroutines >= 64:
		return 4
	}
	return 2
}

func loadRows() (rows []loadRow) {
	for _, n := range goroutineCounts {
		rows = append(rows, loadRow{goroutines: n})
	}
	for _, added := range addedRoundTrips {
		for _, n := range distantCounts {
			rows = append(rows, loadRow{n, added})
		}
	}
	return rows
}

// entrant is a peer that takes part in a row.
type entrant struct {
	peer
	client *client
	need   need
}

// measureLoad measures one row until a given time. Peers that fail before the first round, that hang
// or that are too slow for the time are left out.
func (m measurement) measureLoad(ctx context.Context, r loadRow, until time.Time) error {
	addrs, err := m.networks.addrsOf(ctx, r.added)
	if err != nil {
		return err
	}
	set := m.backend.peers(addrs)
	list := slices.Concat([]peer{set.bare, set.byHand}, m.selected(set.load))
	if r.goroutines == 1 && r.added == 0 {
		list = append(list, m.selected(set.alone)...)
	}
	limit := max(time.Second, time.Until(until)/4)
	var entrants []*entrant
	defer func() {
		for _, e := range entrants {
			e.client.close()
		}
	}()
	for _, p := range list {
		cl, err := p.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		e := &entrant{peer: p, client: cl}
		entrants = append(entrants, e)
		if err := m.learnNeed(ctx, r, e, limit); err != nil {
			if entrants, err = m.leaveOut(r, entrants, e, err); err != nil {
				return err
			}
		}
	}
	plan, entrants, err := m.planLoad(r, entrants, time.Until(until))
	if err != nil {
		return err
	}
	patience := m.disturbance.timeLeft
	for round := range plan.count {
		if time.Now().After(until.Add(patience - m.disturbance.timeLeft)) {
			break
		}
		if entrants, err = m.loadRound(ctx, r, round, plan.length, limit, entrants); err != nil {
			return err
		}
	}
	return nil
}

// learnNeed lets e connect and work for a short time.
func (m measurement) learnNeed(ctx context.Context, r loadRow, e *entrant, limit time.Duration) error {
	if _, err := e.client.load(ctx, r.goroutines, 0, limit); err != nil { // also connects
		return err
	}
	began := time.Now()
	s, err := m.countedLoad(ctx, r, e, warmUp, limit)
	if err != nil {
		return err
	}
	e.need.work = time.Duration(float64(s.Elapsed) * wantedOperations * float64(r.goroutines) / float64(s.N))
	e.need.overhead = time.Since(began) - warmUp
	return nil
}

// planLoad decides how many rounds there are, and leaves out who is too slow.
func (m measurement) planLoad(r loadRow, entrants []*entrant, available time.Duration) (rounds, []*entrant, error) {
	var needs []need
	for _, e := range entrants {
		needs = append(needs, e.need)
	}
	plan, left, err := planWithout(available, needs, func(i int) bool { return !m.essential(entrants[i].peer) })
	if err != nil {
		for _, e := range slices.Clone(entrants) {
			m.miss(e.name, r.name(), throughput(m.byHand), err.Error())
			e.client.close()
		}
		return rounds{}, nil, nil
	}
	for _, i := range left {
		m.miss(entrants[i].name, r.name(), throughput(m.byHand), "too slow for the time")
		entrants[i].client.close()
	}
	var staying []*entrant
	for i, e := range entrants {
		if !slices.Contains(left, i) {
			staying = append(staying, e)
		}
	}
	fmt.Fprintf(os.Stderr, "bench:   %d rounds of %s\n", plan.count, short(plan.length))
	return plan, staying, nil
}

// leaveOut removes e from the row. It returns an error if the row, or the run, must end.
func (m measurement) leaveOut(r loadRow, entrants []*entrant, e *entrant, cause error) ([]*entrant, error) {
	if err := m.tolerate(e.peer, cause); err != nil {
		return entrants, err
	}
	m.miss(e.name, r.name(), throughput(m.byHand), why(cause))
	e.client.close()
	return slices.DeleteFunc(slices.Clone(entrants), func(other *entrant) bool { return other == e }), nil
}

// loadRound measures each entrant once, each time in another order, and compares them.
func (m measurement) loadRound(
	ctx context.Context, r loadRow, round int, d, limit time.Duration, entrants []*entrant,
) ([]*entrant, error) {
	outcomes := make(map[string]loadOutcome)
	first := round % max(len(entrants), 1)
	for _, e := range slices.Concat(entrants[first:], entrants[:first]) {
		s, use, err := m.loadOnce(ctx, r, e, d, limit)
		if err != nil {
			if entrants, err = m.leaveOut(r, entrants, e, err); err != nil {
				return entrants, err
			}
			continue
		}
		n := float64(s.N)
		outcomes[e.name] = loadOutcome{s, float64(s.Requests) / n, perOperation(use.client, s.N), perOperation(use.server, s.N)}
	}
	for _, e := range entrants {
		m.addLoad(e.name, r.name(), round, outcomes)
	}
	return entrants, nil
}

// loadOnce lets e work for d.
func (m measurement) loadOnce(
	ctx context.Context, r loadRow, e *entrant, d, limit time.Duration,
) (s Sample, use cpuUse, err error) {
	use, err = m.disturbance.measureUndisturbed(ctx, func() (err error) {
		s, err = m.countedLoad(ctx, r, e, d, limit)
		return err
	})
	return s, use, err
}

// countedLoad also counts the requests that the service has received.
func (m measurement) countedLoad(ctx context.Context, r loadRow, e *entrant, d, limit time.Duration) (Sample, error) {
	before, err := m.requestsOf(ctx, e.peer)
	if err != nil {
		return Sample{}, err
	}
	s, err := e.client.load(ctx, r.goroutines, d, limit)
	if err != nil {
		return Sample{}, err
	}
	after, err := m.requestsOf(ctx, e.peer)
	s.Requests += after - before
	return s, err
}

// loadOutcome is a Sample, and what was measured around it for each operation.
type loadOutcome struct {
	Sample
	requests             float64
	clientCPU, serverCPU float64 // µs
}

// throughput is the first metric of a row.
func throughput(byHand peer) metric {
	return metric{name: "throughput", unit: "ops/s", baseline: byHand.name}
}

func (m measurement) addLoad(name, scenario string, round int, outcomes map[string]loadOutcome) {
	bare, byHand, own := outcomes[m.bare.name], outcomes[m.byHand.name], outcomes[name]
	add := func(what metric, value, base float64) { m.add(name, scenario, round, what, value, base) }
	add(throughput(m.byHand), own.Rate, byHand.Rate)
	add(metric{name: "median", unit: "µs", baseline: m.bare.name}, own.P50, bare.P50)
	add(metric{name: "p99", unit: "µs", baseline: m.byHand.name}, own.P99, byHand.P99)
	add(metric{name: "requests an operation"}, own.requests, 0)
	// CPU times depend less than the other metrics on other work on the machine, and show which
	// side is busy under load.
	add(metric{name: "CPU of the client", unit: "µs", baseline: m.byHand.name}, own.clientCPU, byHand.clientCPU)
	add(metric{name: "CPU of the server", unit: "µs", baseline: m.byHand.name}, own.serverCPU, byHand.serverCPU)
}

package main

// ran is what the runs of a page have rows of. The page describes nothing else.
type ran struct{ backends, faults, workloads map[string]bool }

func ranIn(all []*result) ran {
	in := ran{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	for _, r := range all {
		for _, w := range r.Rows {
			in.backends[w.Backend], in.faults[w.Fault], in.workloads[w.Workload] = true, true, true
		}
	}
	return in
}

// variants reports whether other forms of services are among the backends, and whether there is
// nothing else.
func (in ran) variants() (some, only bool) {
	usual := false
	for _, b := range backends {
		if in.backends[b.name] {
			some = some || b.variant
			usual = usual || !b.variant
		}
	}
	return some, some && !usual
}

// notTried is what the page's runs don't have, so that nobody takes its absence for a result.
func (in ran) notTried() []string {
	first := "a failover to a replica, and keys that move to another server: [failovers.md](failovers.md) has them"
	if some, _ := in.variants(); some {
		first = "a former primary of Postgres that comes back as a primary: two primaries are an operator's mistake"
	}
	return []string{
		first,
		"clocks and disks of etcd's members: its program isn't linked with the system's library",
		"faults that come together",
		"workloads with several locks, or with other data than a few numbers",
		"more than two contenders for a lock, and more than one machine",
	}
}

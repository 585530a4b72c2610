package choice

import "github.com/fencedlock/locker"

// urls are examples.
var urls = map[string]string{
	"file":      "file:///var/lib/myservice/locks",
	"redis":     "redis://redis.example:6379/0?ttl=30s",
	"redlock":   "redlock://r1.example,r2.example,r3.example,r4.example,r5.example?ttl=30s",
	"etcd":      "etcd://e1.example,e2.example,e3.example?prefix=myservice/&ttl=30s",
	"zookeeper": "zk://z1.example,z2.example,z3.example/myservice?ttl=30s",
	"postgres":  "postgres://user@db.example/myservice?ttl=30s",
}

// servers says what operators of the service must know.
var servers = map[string]string{
	"file":      "Name a directory that nothing cleans up, as systems do below /tmp. Containers need one directory of the host, mounted in each.",
	"redis":     "Let the server keep its data: maxmemory-policy noeviction, appendonly yes, appendfsync always. Otherwise a restart may forget locks. A failover (Sentinels, a Cluster) may forget the latest ones however the servers are set.",
	"redlock":   "The servers must be independent: no standby, and no address that moves from one to another. Restart one at a time, the longest TTL apart. A lease that lasts while a majority is restarted is lost.",
	"etcd":      "Take a TTL of five election timeouts or more (5 s by default): with less, an election costs leases. Stop all holders before the cluster is restored from a snapshot.",
	"zookeeper": "Give all servers the same tickTime and session limits. Count connections against maxClientCnxns: one for each TTL in use, for each process. Stop all holders before the ensemble is restored from a backup.",
	"postgres":  "Connect to the server itself, or to a pool in session mode: PgBouncer in transaction mode is refused (ErrPooler). All idle limits in between must be longer than the TTL, and for waiters longer than the longest wait. A restart or a failover ends all leases. Count connections against max_connections: for each process 1, and up to 8 for waiters.",
}

// failover is the form of a service in which a replica takes over. One server alone doesn't promise
// that, so it is advised only if it is required.
var failover = map[string]struct{ url, also string }{
	"redis": {
		url:  "redis://s1.example:26379/0?master_name=mymaster&addr=s2.example:26379&addr=s3.example:26379&ttl=30s",
		also: "Name the Sentinels in the URL: with the address of one server a Locker doesn't follow a failover.",
	},
	"postgres": {
		url:  "postgres://user@db1.example,db2.example/myservice?target_session_attrs=read-write&ttl=30s",
		also: "Name the replica in the URL, too. Promote it no earlier than the longest TTL after the primary is gone: a holder that is cut off trusts its lease until then, and the replica knows nothing of it.",
	},
}

// withFailover returns what a backend promises with a replica that takes over; false if it has no
// such form. The backends change the same field when they are opened by such a URL.
func withFailover(g locker.Guarantees) (locker.Guarantees, bool) {
	if _, has := failover[g.Backend]; !has {
		return g, false
	}
	g.Tolerance = locker.ToleranceFailover
	return g, true
}

// operate returns an example of a URL for the backend with these guarantees, and what must be known
// to run it.
func operate(g locker.Guarantees) (url string, also []string) {
	url, also = urls[g.Backend], []string{servers[g.Backend]}
	if f, has := failover[g.Backend]; has && g.Tolerance == locker.ToleranceFailover {
		return f.url, append(also, f.also)
	}
	return url, also
}

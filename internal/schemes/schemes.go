// Package schemes knows which package of this project has the backend for the scheme of a URL, for
// programs that have forgotten its import.
package schemes

// packages are relative to the module.
var packages = map[string]string{
	"etcd":       "etcdbackend",
	"etcds":      "etcdbackend",
	"file":       "filebackend",
	"mem":        "membackend",
	"postgres":   "pgbackend",
	"postgresql": "pgbackend",
	"redis":      "redisbackend",
	"redis+unix": "redisbackend",
	"rediss":     "redisbackend",
	"redlock":    "redlockbackend",
	"redlocks":   "redlockbackend",
	"valkey":     "redisbackend",
	"valkeys":    "redisbackend",
	"zk":         "zkbackend",
	"zks":        "zkbackend",
	"zookeeper":  "zkbackend",
	"zookeepers": "zkbackend",
}

// Package returns the path of the package, or nothing for a scheme that is not of this project.
func Package(scheme string) string {
	if packages[scheme] == "" {
		return ""
	}
	return "github.com/fencedlock/locker/" + packages[scheme]
}

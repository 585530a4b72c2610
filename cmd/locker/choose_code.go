package main

import (
	"fmt"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/choice"
)

// goPackages are the packages that make the URLs of a backend known.
var goPackages = map[string]string{
	"file":      "filebackend",
	"redis":     "redisbackend",
	"redlock":   "redlockbackend",
	"etcd":      "etcdbackend",
	"zookeeper": "zkbackend",
	"postgres":  "pgbackend",
}

// openCode returns Go code that opens what is advised. ctx is the program's.
func openCode(a choice.Advice) string {
	scheme, _, _ := strings.Cut(a.URL, ":")
	var required []string
	for _, req := range a.Require {
		required = append(required, "locker."+goName(req))
	}
	const module = "github.com/fencedlock/locker"
	return fmt.Sprintf(`import (
	%q
	_ %q // makes %s:// known
)

l, err := locker.Open(ctx, %q,
	%s)
`, module, module+"/"+goPackages[a.Backend], scheme, a.URL, strings.Join(required, ",\n\t"))
}

// goName returns a requirement's name in package locker. It follows from the name that --require
// knows.
func goName(req locker.Requirement) string {
	if req == locker.RequireTTL {
		return "RequireTTL"
	}
	var name string
	for _, r := range requirements {
		if r.req != req {
			continue
		}
		for part := range strings.SplitSeq(r.name, "-") {
			if part == "fifo" {
				part = "FIFO"
			}
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return name
}

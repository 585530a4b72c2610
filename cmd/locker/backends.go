package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/filebackend"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/pgbackend"
	"github.com/fencedlock/locker/redisbackend"
	"github.com/fencedlock/locker/redlockbackend"
	"github.com/fencedlock/locker/zkbackend"
)

// backends is every backend of this program, in the order of the matrix. A new one is a
// line here; its import makes its URLs known to locker.Open.
var backends = []func() locker.Guarantees{
	membackend.Guarantees,
	filebackend.Guarantees,
	redisbackend.Guarantees,
	redlockbackend.Guarantees,
	etcdbackend.Guarantees,
	zkbackend.Guarantees,
	pgbackend.Guarantees,
}

// silenceClients turns off what client libraries write to stderr on their own, because stderr is
// CMD's as well. What matters comes back as an error.
func silenceClients() { logging.Disable() }

const envURL = "LOCKER_URL"

// backendURL is the value of --backend if that was given, otherwise of LOCKER_URL, otherwise the
// user's private directory. An empty value is an error: a forgotten variable must not turn a lock
// among machines into a lock on this machine. White space around it is dropped, as locker.Open
// does.
func backendURL(flag string, given bool) (string, error) {
	if given {
		flag = strings.TrimSpace(flag)
		if flag == "" {
			return "", errors.New("--backend is empty")
		}
		return flag, nil
	}
	if env, ok := os.LookupEnv(envURL); ok {
		if env = strings.TrimSpace(env); env == "" {
			return "", errors.New(envURL + " is empty; unset it for locks on this machine")
		}
		return env, nil
	}
	if runtime.GOOS == "windows" { // where a directory makes no URL that could be refused for this reason
		return "", errors.New("there are no file locks on Windows; name a backend by --backend or " + envURL)
	}
	dir, err := filebackend.DefaultDir()
	if err != nil {
		return "", &exitError{code: exitService, err: err}
	}
	return (&url.URL{Scheme: "file", Path: dir}).String(), nil
}

// open opens a backend that keeps processes apart and meets reqs.
func open(ctx context.Context, rawURL string, reqs []locker.Requirement) (locker.Locker, error) {
	return locker.Open(ctx, rawURL, append([]locker.Requirement{amongProcesses{}}, reqs...)...)
}

// amongProcesses refuses a backend that lives within this process, as mem does: no other locker
// would see its locks. It refuses files in a container as well, where the lockers of other
// containers would not see them.
type amongProcesses struct{}

func (amongProcesses) Check(g locker.Guarantees) error {
	switch {
	case locker.ScopeMachine.Check(g) == nil:
		return nil
	case g.Because != "":
		return errors.New("all processes of this machine must see the locks")
	}
	return errors.New("only one process sees locks of " + g.Backend + ", and every locker run is another process")
}

// keepOpen returns a copy of the descriptor that the lock is attached to, for CMD to inherit, so
// that the lock survives this process until CMD ends. It is nil where locks are not attached to
// descriptors; otherwise the caller closes it.
func keepOpen(lease locker.Lease) (*os.File, error) {
	if h, ok := locker.As[filebackend.Handle](lease); ok {
		return h.File()
	}
	return nil, nil
}

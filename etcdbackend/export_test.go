package etcdbackend

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/etcdconn"
)

const NearHead = nearHead

var (
	DirOf        = dirOf
	GuardKeyOf   = guardKeyOf
	EndOf        = endOf
	GrantedIn    = grantedIn
	AttemptLimit = attemptLimit
)

// Proved is proved, in numbers.
func Proved(
	granted uint64, sent driver.Instant,
	keepaliveTerm, heard, confirmationSent, confirmationTerm uint64,
) (driver.Instant, bool) {
	return proved(granted, etcdconn.Keepalive{Sent: sent, Term: keepaliveTerm, Heard: etcdconn.Seq(heard)},
		confirmation{sent: etcdconn.Seq(confirmationSent), term: confirmationTerm})
}

// HasUnproved is hasUnproved, of a session whose newest etcd lease has a Base and a keepalive of so
// long ago.
func HasUnproved(base, keepaliveSent, age time.Duration, retired bool) bool {
	now := driver.Stamp()
	s := session{newest: &etcdLease{base: now.Add(-base), keepalive: etcdconn.Keepalive{Sent: now.Add(-keepaliveSent)}, retired: retired}}
	return s.hasUnproved(age)
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	t, err := parse(u)
	return Settings{t.config, t.client}, err
}

type Settings struct {
	c      config
	Client clientv3.Config
}

func (s Settings) Config() (prefix, ttl string) {
	return s.c.prefix, s.c.ttl.String()
}

// Place is what becomes of a place in the queue by steps; see TestPlace.
func Place(steps []string) string {
	var p place
	for _, step := range steps {
		words := strings.Fields(step)
		switch words[0] {
		case "look":
			p.begin()
		case "read":
			var keys []entry
			for i, word := range words[1:] {
				if word != "+" {
					keys = append(keys, entryAt(word, int64(i)))
				}
			}
			p.read("me", keys, words[len(words)-1] == "+")
		case "-":
			gone := entryAt(words[1], 100)
			p.wasDeleted(gone.key, gone.created)
		case "missed":
			gone := entryAt(words[1], 100)
			p.missed(gone.key, gone.created)
		}
	}
	switch {
	case p.first:
		return "won"
	case p.mustRead:
		return "looks"
	case p.watchKey != "":
		return "waits for " + p.watchKey
	}
	return "waits"
}

// entryAt reads "a@7" as the key "a" and the revision 7, and "a" with another revision.
func entryAt(text string, revision int64) entry {
	key, at, found := strings.Cut(text, "@")
	if found {
		revision, _ = strconv.ParseInt(at, 10, 64)
	}
	return entry{key, revision}
}

// ParseDir reads what DirOf has made.
func ParseDir(prefix, dir string) (name string, slot int, ok bool) {
	d := &etcdDriver{config: config{prefix: prefix}}
	return d.parseDir(dir)
}

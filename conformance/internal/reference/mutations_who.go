package reference

import (
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/fencedlock/locker/driver"
)

const whoIsCompared = "who is compared"

var whoMutations = []Mutation{
	{Name: "names-lower-cased", Kind: whoIsCompared,
		Why:    "a database whose collation ignores case; two locks are one",
		change: renamed(strings.ToLower)},
	{Name: "key-is-crc32", Kind: whoIsCompared,
		Why:    "a service whose keys are 32-bit numbers, such as advisory locks; two names are one lock",
		change: hashed(crc32.ChecksumIEEE)},
	{Name: "key-is-fnv32", Kind: whoIsCompared,
		Why: "the hash that Go has at hand, for numbered locks or shards; two names are one lock",
		change: hashed(func(b []byte) uint32 {
			h := fnv.New32a()
			_, _ = h.Write(b)
			return h.Sum32()
		})},
	{Name: "key-is-adler32", Kind: whoIsCompared,
		Why:    "the hash of a compression library at hand; short names soon collide",
		change: hashed(adler32.Checksum)},
	{Name: "key-is-java-hash", Kind: whoIsCompared,
		Why: "a service in Java that stripes locks by hashCode; names with Aa and BB are one lock",
		change: hashed(func(b []byte) (h uint32) {
			for _, u := range utf16.Encode([]rune(string(b))) {
				h = 31*h + uint32(u)
			}
			return h
		})},
	{Name: "names-cut-at-63", Kind: whoIsCompared,
		Why:    "identifiers of Postgres are cut silently; long names that differ at the end are one lock",
		change: renamed(func(name string) string { return name[:min(len(name), 63)] })},
	{Name: "path-cleaned", Kind: whoIsCompared,
		Why:    "a service with paths, whose client cleans them; a//b and a/b are one lock",
		change: renamed(path.Clean)},
	{Name: "escapes-decoded", Kind: whoIsCompared,
		Why: "an HTTP API that decodes a name once too often; a%2Fb and a/b are one lock",
		change: renamed(func(name string) string {
			if decoded, err := url.PathUnescape(name); err == nil {
				return decoded
			}
			return name
		})},
	{Name: "unicode-composed", Kind: whoIsCompared,
		Why: "a file system that normalises Unicode; two spellings of one letter are one lock",
		change: renamed(strings.NewReplacer("a\u0308", "ä", "o\u0308", "ö", "u\u0308", "ü", "e\u0301", "é", "n\u0303", "ñ",
			"A\u030a", "Å", "\u212b", "Å", "\u212a", "K").Replace)},
	{Name: "trailing-dot-dropped", Kind: whoIsCompared,
		Why:    "file names of Windows and host names; a and a. are one lock",
		change: renamed(func(name string) string { return strings.TrimRight(name, ".") })},
	{Name: "prefix-joined-by-slash", Kind: whoIsCompared,
		Why: "a prefix is taken for a folder; prefix a with name b/c and prefix a/b with name c are one lock",
		change: func(st *steps) {
			st.key = func(prefix, name string) string { return strings.TrimSuffix(prefix, "/") + "/" + name }
			st.currentKey = st.key
		}},
	{Name: "current-without-prefix", Kind: whoIsCompared,
		Why: "the prefix is forgotten in the one call that only reads; a fence gets another lock's token",
		change: func(st *steps) {
			st.currentKey = func(_, name string) string { return key("", name) }
		}},
	{Name: "current-by-range", Kind: whoIsCompared,
		Why: "a range read of etcd or SQL's LIKE; of a free lock, a longer name's token is current",
		change: func(st *steps) {
			st.current = func(s *Service, k string, now driver.Instant) answer {
				a := s.current(k, now)
				var keys []string
				for other := range s.data.locks {
					if a.token == 0 && strings.HasPrefix(other, k) {
						keys = append(keys, other)
					}
				}
				if len(keys) == 0 {
					return a
				}
				return s.current(slices.Min(keys), now)
			}
		}},
	{Name: "release-by-pattern", Kind: whoIsCompared,
		Why: "keys are deleted by a pattern; releasing the lock a* frees ab for a second holder",
		change: func(st *steps) {
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				a := s.release(q, c, now)
				for k, r := range s.data.locks {
					if ok, err := path.Match(c.key, k); ok && err == nil && k != c.key && r.holder != nil && r.holder.session == q.session {
						r.holder = nil
						s.sweep(r, now)
					}
				}
				return a
			}
		}},
	{Name: "release-compares-session", Kind: whoIsCompared,
		Why:    "the session is the owner; a late release frees the lock that the same client has again",
		change: sessionOwns(release)},
	{Name: "renewal-compares-session", Kind: whoIsCompared,
		Why:    "the session is the owner; a lost lease goes on when the same client has the lock again",
		change: sessionOwns(renew)},
	{Name: "acquire-compares-session", Kind: whoIsCompared,
		Why:    "locks of a session are reentrant; two goroutines of one client hold one lock",
		change: sessionOwns(acquire)},
	{Name: "owner-compared-by-its-start", Kind: whoIsCompared,
		Why: "the owner is session and number, and a column that is too short cuts the number off",
		change: func(st *steps) {
			st.owner = func(c *client) string { return c.session + "/" + driver.NewOwner() }
			st.owns = func(v verb, e *entry, c claim, q request) bool {
				return owns(v, e, c, q) || v != acquire && e.owner[:16] == c.owner[:16]
			}
		}},
	{Name: "renewal-without-owner", Kind: whoIsCompared,
		Why: "a plain EXPIRE; a former holder keeps its successor's lock alive and believes that it is its own",
		change: func(st *steps) {
			st.renewOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				a := s.renew(q, c, now)
				if r := s.data.locks[c.key]; a.state == gone && r != nil && r.holder != nil {
					return s.refresh(renew, r, r.holder, q, c, now)
				}
				return a
			}
		}},
	{Name: "release-without-owner", Kind: whoIsCompared,
		Why:    "a plain DEL; a former holder frees its successor's lock for a third one",
		change: releasesAny(func(*record) bool { return true })},
	{Name: "release-without-owner-if-waited-for", Kind: whoIsCompared,
		Why:    "the script compares the owner in the branch without waiters only; a repeated release frees the successor's lock",
		change: releasesAny(func(r *record) bool { return len(r.queue) > 0 })},
	{Name: "leaving-removes-the-first", Kind: whoIsCompared,
		Why: "a pop instead of a removal; a waiter that gives up takes another one's place away, and leaves its own",
		change: func(st *steps) {
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && len(r.queue) > 1 && s.find(r, release, c, q) != nil && r.holder != s.find(r, release, c, q) {
					r.queue = slices.Delete(r.queue, 0, 1)
					return answer{state: gone}
				}
				return s.release(q, c, now)
			}
		}},
	{Name: "leaving-removes-all-of-a-session", Kind: whoIsCompared,
		Why: "an unsubscribe without arguments; who gives up one wait loses the places of all its waits",
		change: func(st *steps) {
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && slices.ContainsFunc(r.queue, func(w *entry) bool { return w.owner == c.owner }) {
					for _, r := range s.data.locks {
						r.queue = slices.DeleteFunc(r.queue, func(w *entry) bool { return w.session == q.session })
					}
				}
				return s.release(q, c, now)
			}
		}},
	{Name: "waits-kept-by-name", Kind: whoIsCompared,
		Why: "a map of the client by name; a holder and a waiter of one client share an entry, and one misses its notice",
		change: func(st *steps) {
			st.register = func(c *client, l *lock) { c.locks[l.claim.key] = l }
			st.forget = func(c *client, l *lock) { delete(c.locks, l.claim.key) }
			st.addressee = func(c *client, n notice) *lock { return c.locks[n.key] }
		}},
	{Name: "loss-told-by-name", Kind: whoIsCompared,
		Why: "a notice of an expired key names no owner; if it is late, it ends the next lease of the same client",
		change: func(st *steps) {
			st.addressee = func(c *client, n notice) *lock {
				for _, l := range c.locks {
					if n.token == 0 && l.claim.key == n.key && l.current() == holding {
						return l
					}
				}
				return c.locks[n.owner]
			}
		}},
	{Name: "ids-of-8-bits", Kind: whoIsCompared,
		Why: "waits have small numbers on the wire; with more than 256 locks, one's grant is taken for another's",
		change: func(st *steps) {
			ids := newPerClient[byte]()
			st.owner = func(c *client) string {
				id := ids.update(c, func(last byte) byte { return last + 1 })
				return fmt.Sprintf("%03d-%s", id, driver.NewOwner())
			}
			st.register = func(c *client, l *lock) { c.locks[l.claim.owner[:3]] = l }
			st.forget = func(c *client, l *lock) {
				if c.locks[l.claim.owner[:3]] == l {
					delete(c.locks, l.claim.owner[:3])
				}
			}
			st.addressee = func(c *client, n notice) *lock { return c.locks[n.owner[:3]] }
		}},
}

// renamed maps names carelessly.
func renamed(mapping func(string) string) func(*steps) {
	return func(st *steps) {
		st.key = func(prefix, name string) string { return key(prefix, mapping(name)) }
		st.currentKey = st.key
	}
}

// hashed makes keys of hashes.
func hashed(hash func([]byte) uint32) func(*steps) {
	return func(st *steps) {
		st.key = func(prefix, name string) string { return fmt.Sprint(hash([]byte(prefix + name))) }
		st.currentKey = st.key
	}
}

// sessionOwns compares sessions instead of owners in one operation on the holder.
func sessionOwns(in verb) func(*steps) {
	return func(st *steps) {
		st.owns = func(v verb, e *entry, c claim, q request) bool {
			return owns(v, e, c, q) || v == in && e.token > 0 && e.session == q.session
		}
	}
}

// releasesAny has a release free the lock of another owner.
func releasesAny(when func(*record) bool) func(*steps) {
	return func(st *steps) {
		st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
			if r := s.data.locks[c.key]; r != nil && r.holder != nil && s.find(r, release, c, q) == nil && when(r) {
				r.holder = nil
				s.sweep(r, now)
			}
			return s.release(q, c, now)
		}
	}
}

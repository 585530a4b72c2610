package conformance

import (
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// hashPairs are the hashes for which a program may ask for two names that have the same one.
// Adapters put such hashes in the place of names where their service wants a number.
var hashPairs = map[string]func(string) uint32{
	"crc32":  func(s string) uint32 { return crc32.ChecksumIEEE([]byte(s)) },
	"crc32c": func(s string) uint32 { return crc32.Checksum([]byte(s), crc32.MakeTable(crc32.Castagnoli)) },
	"adler":  func(s string) uint32 { return adler32.Checksum([]byte(s)) },
	"fnv1a": func(s string) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(s)) // never fails
		return h.Sum32()
	},
	"fnv1": func(s string) uint32 {
		h := fnv.New32()
		_, _ = h.Write([]byte(s)) // never fails
		return h.Sum32()
	},
	"java": func(s string) uint32 { return polynomial(s, 0, 31) },
	"djb2": func(s string) uint32 { return polynomial(s, 5381, 33) },
}

func polynomial(s string, start, factor uint32) uint32 {
	h := start
	for i := range len(s) {
		h = h*factor + uint32(s[i])
	}
	return h
}

// collide returns two names that begin with base and have the same hash. By the birthday paradox
// about 80,000 names are enough for 32 bits.
func collide(base string, hash func(string) uint32) (one, two string) {
	seen := make(map[uint32]int)
	name := func(i int) string { return base + "-" + strconv.FormatInt(int64(i)*2654435761%(1<<40), 36) }
	for i := 0; ; i++ {
		h := hash(name(i))
		if j, ok := seen[h]; ok {
			return name(j), name(i)
		}
		seen[h] = i
	}
}

// lockName makes the name of a lock of what a program says. base is new in each run. Under a prefix
// there is no base, because the prefix has it.
func lockName(base, text string, prefixed bool, pairs map[string][2]string) string {
	if prefixed {
		return text
	}
	if kind, which, ok := strings.Cut(text, ":"); ok && hashPairs[kind] != nil && (which == "1" || which == "2") {
		if _, found := pairs[kind]; !found {
			one, two := collide(base, hashPairs[kind])
			pairs[kind] = [2]string{one, two}
		}
		return pairs[kind][which[0]-'1']
	}
	if last, ok := strings.CutPrefix(text, "…"); ok {
		return base + strings.Repeat("x", locker.MaxName-len(base)-len(last)) + last
	}
	if first, ok := strings.CutSuffix(text, "…"); ok {
		return first + strings.Repeat("x", locker.MaxName-len(base)-len(first)) + base
	}
	return base + text
}

// member is the name of the ith of many acquisitions that begin together.
func member(name string, i int) string {
	number := "." + strconv.Itoa(i)
	for len(name)+len(number) > locker.MaxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + number
}

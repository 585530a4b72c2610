package conformance

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// A part of case H58.1: digests that a backend cuts to 32 bits.

// digests are what backends take for short keys of names.
var digests = map[string]func([]byte) []byte{
	"md5":    func(b []byte) []byte { sum := md5.Sum(b); return sum[:] },
	"sha1":   func(b []byte) []byte { sum := sha1.Sum(b); return sum[:] },
	"sha256": func(b []byte) []byte { sum := sha256.Sum256(b); return sum[:] },
}

// equalDigests finds two names that begin with base and whose digests have the same first 32 bits,
// and two with the same last 32 bits. That takes about 100,000 names. Nobody can choose such names
// in advance, because base is new in each run.
func equalDigests(base string, digest func([]byte) []byte) (pairs [2][2]string) {
	var seen [2]map[uint32]int
	for end := range seen {
		seen[end] = make(map[uint32]int, 1<<17)
	}
	name := func(i int) string { return base + strconv.Itoa(i) }
	text := []byte(base)
	for i, found := 0, 0; found < len(pairs); i++ {
		d := digest(strconv.AppendInt(text[:len(base)], int64(i), 10))
		for end, bits := range [2][]byte{d[:4], d[len(d)-4:]} {
			number := binary.BigEndian.Uint32(bits)
			if twin, ok := seen[end][number]; !ok {
				seen[end][number] = i
			} else if pairs[end][0] == "" {
				pairs[end] = [2]string{name(twin), name(i)}
				found++
			}
		}
	}
	return pairs
}

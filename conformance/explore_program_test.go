package conformance_test

import (
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// TestExplorePrograms looks at the programs alone: the same seed makes the same program, and each
// subset of a program is a program.
func TestExplorePrograms(t *testing.T) {
	h := inBubbles(memHarness(plain))
	programs := conformance.Programs(t, h, 1, 60)
	if !reflect.DeepEqual(programs, conformance.Programs(t, h, 1, 60)) {
		t.Error("the same seeds make different programs")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range programs {
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(conformance.Step) bool { return random.IntN(3) == 0 })
		if c := conformance.Try(t, h, p); c != nil {
			t.Fatalf("%v", c)
		}
	}
}

// No program for a real service has a TTL that is far longer than the harness': services have longest TTLs.
func TestProgramsTTLs(t *testing.T) {
	h := memHarness(plain)
	for _, p := range conformance.Programs(t, h, 1, 2000) {
		for _, s := range p.Steps {
			if s.TTL > 8*h.TTL {
				t.Fatalf("a TTL of %v, with a harness' of %v, in %v", s.TTL, h.TTL, p)
			}
		}
	}
}

func TestProgramAsGo(t *testing.T) {
	p := conformance.Program{
		Lockers: []conformance.Opening{{Linked: true}, {}, {}},
		Names:   []string{"-a"},
		Steps: []conformance.Step{
			{At: 1500 * time.Microsecond, Do: "cut"},
			{Do: "acquire", Locker: 1, ID: 3, Count: 2, TTL: time.Hour, Wait: conformance.Forever, NoRenewal: true},
		},
	}
	const want = `conformance.Program{
	Lockers: []conformance.Opening{{Linked: true}, 2: {}},
	Names: []string{"-a"},
	Steps: []conformance.Step{
		{At: 0, Do: "acquire", Locker: 1, ID: 3, Count: 2, TTL: 1 * time.Hour, Wait: conformance.Forever, NoRenewal: true},
		{At: 1500 * time.Microsecond, Do: "cut"},
	},
}`
	if got := p.String(); got != want {
		t.Errorf("the program is\n%s\nwant\n%s", got, want)
	}
}

func TestHashPairs(t *testing.T) {
	polynomial := func(h, factor uint32) func(string) uint32 {
		return func(s string) uint32 {
			sum := h
			for i := range len(s) {
				sum = sum*factor + uint32(s[i])
			}
			return sum
		}
	}
	hashes := map[string]func(string) uint32{
		"crc32":  func(s string) uint32 { return crc32.ChecksumIEEE([]byte(s)) },
		"crc32c": func(s string) uint32 { return crc32.Checksum([]byte(s), crc32.MakeTable(crc32.Castagnoli)) },
		"adler":  func(s string) uint32 { return adler32.Checksum([]byte(s)) },
		"fnv1a": func(s string) uint32 {
			h := fnv.New32a()
			h.Write([]byte(s))
			return h.Sum32()
		},
		"fnv1": func(s string) uint32 {
			h := fnv.New32()
			h.Write([]byte(s))
			return h.Sum32()
		},
		"java": polynomial(0, 31),
		"djb2": polynomial(5381, 33),
	}
	for kind, pair := range conformance.HashPairs {
		one, two := pair[0]+"x1f", pair[1]+"x1f"
		if hashes[kind] == nil || one == two || hashes[kind](one) != hashes[kind](two) {
			t.Errorf("%s: %q and %q don't have the same hash", kind, one, two)
		}
		delete(hashes, kind)
	}
	for kind := range hashes {
		t.Errorf("there is no pair for %s", kind)
	}
}

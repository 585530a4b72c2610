package conformance

import (
	"slices"
	"time"
)

// Pairs of names that careless adapters take for one: that differ only in case, in a separator, in
// an escape, in the form of Unicode, at an end, or in what a pattern matches, and those with the
// same hash.
var confusables = [][2]string{
	{"-a", "-A"}, {"-ß", "-ss"}, {"-K", "-\u212a"}, {"-i", "-\u0131"}, {"-ä", "-a\u0308"}, {"-é", "-e"}, {"-ﬁ", "-fi"}, {"-１", "-1"},
	{"/b", "//b"}, {"/b", "b"}, {"/b/", "/b"}, {"/b", "/./b"}, {"/b", "/c/../b"}, {"/b", ":b"}, {"/b", "\\b"}, {".b", "/b"}, {"-b", "_b"}, {":b", "::b"},
	{"/b", "%2Fb"}, {"%2Fb", "%2fb"}, {"%b", "%25b"}, {"+b", " b"}, {"+b", "%20b"}, {"&b", "&amp;b"}, {"-b", "-b "}, {"-b", " -b"}, {"-b", "-b."}, {"-b", "-b\u00a0"},
	{"-b", "-b\u200b"}, {"-b", "-b/"}, {"-b", "-b*"}, {"-?", "-b"}, {"-[b]", "-b"}, {"-%", "-b"}, {"-_", "-b"}, {"-b", "-b\u0338"}, {"{b}", "b"}, {"{b}", "{b}c"},
	{"-b", ""}, {"-b", "-bb"}, {"-01", "-1"}, {"-1", "-1.0"}, {"-b#c", "-b"}, {"-b?c", "-b"}, {"-b:c", "-b"}, {"-b=c", "-b"}, {"-b,c", "-b"}, {"-b;c", "-b"}, {"-b|c", "-b"},
	{"-'b'", "-b"}, {"-''", "-'"}, {"-\\'", "-'"}, {"-b--", "-b"}, {"…1", "…2"}, {"1…", "2…"}, {"…é", "…e"}, {"…11", "…12"}, {"12…", "13…"},
	{"crc32:1", "crc32:2"}, {"crc32c:1", "crc32c:2"}, {"adler:1", "adler:2"}, {"fnv1a:1", "fnv1a:2"}, {"fnv1:1", "fnv1:2"}, {"java:1", "java:2"}, {"djb2:1", "djb2:2"},
}

// confusable has both names of some pairs held at the same time. For one of them more happens.
func confusable(b *builder) {
	ttl := b.newTTL()
	pair := confusables[b.uniform(len(confusables))]
	b.pair(ttl, b.any(), b.any(), b.newName(pair[0]), b.newName(pair[1]))
	first, second := b.any(), b.any()
	for range 8 + b.uniform(16) {
		pair := confusables[b.uniform(len(confusables))]
		b.add(Step{Do: "acquire", Locker: first, Name: b.newName(pair[0]), ID: b.newIDs(1), TTL: ttl})
		b.add(Step{At: time.Millisecond, Do: "acquire", Locker: second, Name: b.newName(pair[1]), ID: b.newIDs(1), TTL: ttl})
	}
}

// pair has two locks held, waited for and released, as if they had nothing to do with each other.
func (b *builder) pair(ttl time.Duration, first, second, name, other int) {
	one, two := b.newIDs(1), b.newIDs(1)
	b.add(Step{Do: "acquire", Locker: first, Name: name, ID: one, TTL: ttl})
	b.add(Step{At: time.Millisecond, Do: "read", Locker: second, Name: other})
	at := time.Millisecond + b.spread(time.Millisecond, b.lastTTL)
	b.add(Step{At: at, Do: "acquire", Locker: second, Name: other, ID: two, TTL: b.otherTTL(ttl)})
	at += b.spread(time.Millisecond, b.lastTTL)
	if b.chance(2) {
		b.add(Step{At: at, Do: "acquire", Locker: b.any(), Name: other, ID: b.newIDs(1), TTL: ttl, Wait: Forever})
	}
	b.add(Step{At: at, Do: "read", Locker: second, Name: other})
	b.add(Step{At: at, Do: "renew", ID: one})
	at += b.span(0, 2)
	b.add(Step{At: at, Do: "release", ID: one})
	b.add(Step{At: at + time.Millisecond, Do: "probe", ID: two})
	b.add(Step{At: at + time.Millisecond, Do: "renew", ID: two})
	b.add(Step{At: at + b.span(0, 2), Do: "release", ID: two})
}

// prefixPairs has the same name under two prefixes, or a prefix and a name that are the same when
// they are joined carelessly.
func prefixPairs(b *builder) {
	ttl := b.newTTL()
	between := []string{"/", ":", ".", "-", "_", "|"}[b.uniform(6)]
	for _, kind := range [][4]string{{"a", "b" + between + "c", "a" + between + "b", "c"}, {"a" + between, "c", "b" + between, "c"}, {"a" + between, "c", "A" + between, "c"}}[b.uniform(3):][:1] {
		first, second := b.prefixed(kind[0]), b.prefixed(kind[2])
		b.pair(ttl, first, second, b.newName(kind[1]), b.newName(kind[3]))
		waiting := b.newIDs(2)
		b.add(Step{At: b.span(0, 1), Do: "acquire", Locker: first, Name: b.newName(kind[1]), ID: waiting, TTL: ttl, Wait: Forever})
		b.add(Step{At: b.span(0, 1), Do: "acquire", Locker: second, Name: b.newName(kind[3]), ID: waiting + 1, TTL: ttl, Wait: Forever})
	}
}

// prefixed is a Locker with a prefix.
func (b *builder) prefixed(prefix string) int {
	o := Opening{Prefix: prefix}
	if i := slices.Index(b.p.Lockers, o); i >= 0 {
		return i
	}
	b.p.Lockers = append(b.p.Lockers, o)
	return len(b.p.Lockers) - 1
}

package conformance

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// hashPairs are pairs of names with the same 32-bit hash. Adapters put such hashes in the place of
// names where their service wants a number. Each of these hashes goes through its text from the
// front, so the hashes stay the same when both names get the same end.
var hashPairs = map[string][2]string{
	"crc32":  {"wvzxtdmrm", "ttbsljlvb"},
	"crc32c": {"wmxpsklmk", "xnwwvrgcg"},
	"adler":  {"gjzhrjfln", "mnrbmqdqm"},
	"fnv1a":  {"xldgqchwn", "plsfstbhf"},
	"fnv1":   {"clxpdmlnq", "xzkpjgtmf"},
	"java":   {"cxhkxhxxc", "qpwqpldgs"},
	"djb2":   {"ssjvsljdz", "npxdlldpg"},
}

// lockName makes the name of a lock of what a program says. base is new in each run. Under a prefix
// there is no base, because the prefix has it.
func lockName(base, text string, prefixed bool) string {
	if prefixed {
		return text
	}
	if kind, which, ok := strings.Cut(text, ":"); ok && (which == "1" || which == "2") {
		if pair, ok := hashPairs[kind]; ok {
			return pair[which[0]-'1'] + base
		}
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

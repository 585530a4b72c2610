package filebackend

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

const (
	suffix      = ".lock"
	hashed      = "sha256="
	maxFileName = 255 // of all usual file systems, in bytes
)

// fileName maps a lock's name to the name of its file. Different names never get the same file, not
// even on a file system that ignores case or normalises Unicode: every byte that is not a
// lower-case ASCII letter, a digit, - or _ becomes % and two hex digits. So no file name contains a
// slash or begins with a dot.
//
// The file of a slot has the slot before its suffix, as in nightly-report.3.lock. No escaped name
// contains a dot.
//
// A name that gets too long is hashed. The = distinguishes it from all escaped names, which have
// none.
func fileName(name string, slot int) string {
	suffix, longest := suffix, len(suffix)
	if slot != 0 { // all slots of a name are hashed, or none
		suffix, longest = "."+kit.SlotText(slot)+suffix, len(".1000"+suffix)
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789abcdef"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	if b.Len()+longest <= maxFileName {
		return b.String() + suffix
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:]) + suffix
}

// nameOf is the name and the slot of the lock whose file is called file. It is not ok if the file is
// no lock's. The name is empty if the file has a hash of it.
func nameOf(file string) (name string, slot int, ok bool) {
	text, isLock := strings.CutSuffix(file, suffix)
	text, number, isSlot := strings.Cut(text, ".")
	if isSlot {
		slot, isSlot = kit.ParseSlot(number)
		isLock = isLock && isSlot
	}
	if strings.HasPrefix(text, hashed) {
		return "", slot, isLock
	}
	name, err := url.PathUnescape(text)
	if err != nil || !isLock || locker.ValidName(name) != nil || fileName(name, slot) != file {
		return "", 0, false
	}
	return name, slot, true
}

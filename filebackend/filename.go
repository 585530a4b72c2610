package filebackend

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/fencedlock/locker"
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
// A name that gets too long is hashed. The = distinguishes it from all escaped names, which have
// none.
func fileName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789abcdef"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	if b.Len()+len(suffix) <= maxFileName {
		return b.String() + suffix
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:]) + suffix
}

// nameOf is the name of the lock whose file is called file; false if the file is no lock's, or has
// a hash of the name.
func nameOf(file string) (string, bool) {
	name, err := url.PathUnescape(strings.TrimSuffix(file, suffix))
	if err != nil || fileName(name) != file || locker.ValidName(name) != nil {
		return "", false
	}
	return name, true
}

// isHashed reports whether file is called by the hash of a name.
func isHashed(file string) bool {
	return strings.HasPrefix(file, hashed) && strings.HasSuffix(file, suffix)
}

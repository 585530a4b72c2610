package certmagiclocker

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

const (
	keptBytes = 120                         // of a name that is cut
	hashBytes = 16                          // of the name's SHA-256, which follow as hex digits
	longest   = keptBytes + 1 + 2*hashBytes // of a lock's name
)

// lockName returns the name of the lock that CertMagic calls name. Names contain domain names of up to 253
// bytes, and no rule of CertMagic excludes other texts.
func lockName(name string) string {
	if len(name) <= longest && locker.ValidName(name) == nil {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	kept := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, name)
	if len(kept) > keptBytes {
		kept = strings.ToValidUTF8(kept[:keptBytes], "") // without a character that was cut in two
	}
	return kept + "~" + hex.EncodeToString(hash[:hashBytes])
}

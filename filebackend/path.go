//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may contain, as in Linux.
const maxLinks = 40

// resolveDir follows the absolute path dir, creates what is missing, and returns a path to the same
// directory without symbolic links, so that a link that is changed later changes nothing for this
// Locker. reason says why the path can't be trusted; it is empty when it can. The directory at the
// end is checked by refusal.
//
// This user, root, and the owner of the root directory are trusted. They could replace everything.
// (In a user namespace, root often has another number.)
func resolveDir(dir string, euid int) (real, reason string, err error) {
	top, err := os.Lstat("/")
	if err != nil {
		return "", "", err
	}
	trusted := []int{euid, 0, ownerOf(top)}
	at, rest := "/", elements(dir)
	if len(rest) > 0 {
		reason = pathRefusal(at, top.Mode(), ownerOf(top), trusted)
	}
	for links := 0; len(rest) > 0 && reason == ""; {
		if rest[0] == ".." { // of a link's target
			at, rest = filepath.Dir(at), rest[1:]
			continue
		}
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := lookUp(at, next)
		if err != nil {
			return "", "", err
		}
		isLink := info.Mode()&fs.ModeSymlink != 0
		if isLink || len(rest) > 0 {
			reason = pathRefusal(next, info.Mode(), ownerOf(info), trusted)
		}
		if !isLink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", "", &fs.PathError{Op: "open", Path: dir, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(elements(target), rest...)
	}
	return at, reason, nil
}

// lookUp makes path, a directory in parent, if nothing has that name yet. So a directory is made
// only where the path to it is trusted.
func lookUp(parent, path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err := makeDir(parent, path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

// elements are the names in a path.
func elements(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// Package filebackend keeps locks in the files of one directory, by flock(2): for processes of one machine, without any
// service. It is opened by [New], or by [locker.Open] with the URL of a directory:
//
//	l, err := locker.Open(ctx, "file:///var/lib/reports/locks")
//
// It works on Linux, macOS, FreeBSD, OpenBSD and DragonFly BSD. Elsewhere opening fails with [errors.ErrUnsupported].
//
// # What a lease hangs on
//
// The kernel. It frees the lock when the holder's process ends, however that happens, and at once. There is no TTL: a
// lease has no deadline, [locker.WithTTL] is refused, and a holder that hangs or is stopped (SIGSTOP) keeps the lock
// until it goes on or is killed. [locker.WithMaxHold] ends a lease of a process that still runs.
//
// Each lock has one file, which holds the last token, and the owner and process it was granted to, for people who
// look. A new token is on the disk before the lease is granted, and is larger than the one before it even when the
// clock was set back. Files are never removed, because the tokens go with them: the directory grows with the number
// of different names. A file that is removed or replaced by hand breaks its lock, and the holder learns it from Renew
// alone.
//
// flock(1) excludes holders of the same file (flock FILE CMD, or exec 9<FILE in a shell), once this package has made
// it; waiters notice its end when they look by themselves. What opens a file to write it anew (exec 9>FILE) destroys
// the token; a file without one is refused with an error, not begun anew.
//
// # The directory
//
// It is made with mode 0700, and so are its parents, where it doesn't exist. Some are refused, with an error that
// gives the reason and matches [locker.ErrOption]:
//
//   - one that belongs to somebody other than the user or root, or that all may write to, because anybody who can replace a
//     lock file can break the lock (members of its group are trusted);
//   - one on whose way a directory or a symbolic link belongs to somebody else, or a directory may be written to by all
//     without being sticky, because anybody who can turn the way can lead two processes to different directories. Symbolic
//     links are followed once, when the Locker is opened;
//   - one on a network or cluster file system, because flock and the creation of files are not reliable between
//     machines there, and what holds on one machine alone would look as if it held for all.
//
// On some file systems locks work, but less is promised; the Locker's Guarantees say so and why, and
// [locker.Correctness] refuses it:
//
//   - in memory (tmpfs), tokens don't survive a reboot;
//   - on layers (overlayfs), which is what the root of a container is as a rule, another container has another directory
//     of the same name, and the tokens end with the container. So the scope is one process. Mount a volume of the host,
//     with the same directory of the host for all who must exclude each other;
//   - on a file system that isn't known to be local, the same is assumed.
//
// A tmpfs, or the root of a container that is not on layers (an engine on Btrfs or ZFS has such), can't be told from
// one of the machine: what this package calls one machine is all processes that see the same directory.
//
// # Waiting
//
// On Linux the kernel tells waiters (inotify) that a holder has closed its file; waiters of all processes then try,
// and any of them wins. In case a notice is missed they also look about once a second. Elsewhere, and where the user
// has no inotify instance left (128 by default), they look about 25 times a second.
//
// While a Locker waits, and for a second after that, it runs one goroutine that reads the notices. It ends by itself,
// and at Close.
//
// # Child processes
//
// Descriptors of lock files are closed in programs that the holder starts. A holder that wants to share the lock's
// life with a child gives it one on purpose; see [Handle].
package filebackend

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

const backend = "file"

func init() { locker.Register(backend, open) }

// New returns a locker that keeps its files in dir, which it makes if it doesn't exist. All processes that shall
// exclude each other use the same directory. A relative dir is taken from the working directory of now. The error
// matches [locker.ErrOption] when dir can't be trusted, and [errors.ErrUnsupported] on a system without flock(2).
func New(dir string) (locker.Locker, error) {
	d, err := newDriver(dir)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	return driver.New(d, driver.Config{Backend: backend}), nil
}

// Guarantees is what a locker of this package promises whose directory is on a disk of this machine. One on a memory
// file system promises less, [locker.FencingUntilDataLoss] and [locker.RestartNothing], and one in a container's own
// file system, or on a file system that isn't known, has [locker.ScopeProcess] as well.
func Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend:    backend,
		Scope:      locker.ScopeMachine,
		Tolerance:  locker.ToleranceNone,
		Exclusion:  locker.ExclusionKernel,
		Fencing:    locker.FencingDurable,
		Clocks:     locker.ClocksNone,
		Order:      locker.OrderNone,
		Waiting:    waiting,
		Expiry:     locker.Expiry{By: locker.ExpiryProcess},
		Revocation: locker.RevocationUnseen,
		Restart:    locker.RestartTokens,
		RoundTrips: 0,
		Cost:       locker.CostNone,
	}
}

// Handle is what a lease of this package offers beyond [locker.Lease]; [locker.As] finds it.
type Handle interface {
	// File returns a copy of the lock's descriptor, which the caller closes; that doesn't affect the lease. It is for a
	// child process that shall hold the lock beside its parent ([os/exec.Cmd.ExtraFiles]): the kernel then keeps the
	// lock until the last process that has the descriptor has ended, so a child that survives its parent, and whatever
	// it has started itself and left the descriptor to, is protected to its end. Release unlocks for all of them at
	// once, so release after the child has ended. Nothing may be written to the file.
	//
	// It fails with [os.ErrClosed] once the lease is over.
	File() (*os.File, error)
}

// DefaultDir is the user's private directory for lock files: ~/.local/state/locker, on macOS
// ~/Library/Application Support/locker. It is not made here.
//
// Jobs of cron and of systemd must find the same directory as a login shell, or they don't exclude each other. So it
// depends on nothing but the user's home: not on XDG_RUNTIME_DIR or XDG_STATE_HOME, which only a login sets, and not
// on TMPDIR. The home is that of the environment, and that of the user database where the environment has none.
func DefaultDir() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		u, lookupErr := user.Current()
		if lookupErr != nil {
			return "", errors.Join(err, lookupErr)
		}
		home = u.HomeDir
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("the home directory %q is not an absolute path", home)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "locker"), nil
	}
	return filepath.Join(home, ".local", "state", "locker"), nil
}

// open is the Opener for file:///absolute/directory.
func open(_ context.Context, u *url.URL) (locker.Locker, error) {
	dir, err := urlDir(u)
	if err != nil {
		return nil, err
	}
	return New(dir)
}

// urlDir takes the directory from a URL.
func urlDir(u *url.URL) (string, error) {
	if err := kit.NewParams(u).Err(); err != nil {
		return "", err
	}
	var wrong string
	switch {
	case u.User != nil:
		wrong = "it has a user, and files have none"
	case u.Host != "":
		wrong = "it has a host, and files are on this one; a path begins with a third slash, as in file:///var/lib/locks"
	case u.Fragment != "":
		wrong = "it has a fragment; a # in a path is written %23"
	case !strings.HasPrefix(u.Path, "/"):
		wrong = "it needs an absolute path, as in file:///var/lib/locks"
	case strings.ContainsRune(u.Path, 0):
		wrong = "its path has a NUL"
	default:
		return filepath.Clean(u.Path), nil
	}
	return "", fmt.Errorf("%w: URL: %s", locker.ErrOption, wrong)
}

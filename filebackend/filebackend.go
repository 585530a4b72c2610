// Package filebackend keeps locks in the files of one directory, by flock(2): for processes of one
// machine, without any service. It is opened by [New], or by [locker.Open] with the URL of a
// directory:
//
//	l, err := locker.Open(ctx, "file:///var/lib/reports/locks")
//
// It works on Linux, macOS, FreeBSD, OpenBSD and DragonFly BSD. Elsewhere opening fails with
// [errors.ErrUnsupported].
//
// # What ends a lease
//
// The kernel frees the lock at once when the holder's process ends, however that happens. There is
// no TTL: a lease has no deadline, and a holder that hangs or is stopped (SIGSTOP) keeps the lock
// until it continues or is killed. A lease that the program forgets is held until the process ends.
// [locker.WithTTL] is refused with an error that matches [errors.ErrUnsupported].
// [locker.WithMaxHold] ends a lease of a process that still runs.
//
// Each lock has one file. It contains the last token and, for people who look, the owner and the
// process to which it was granted. A new token is on the disk before the lease is granted, and is
// larger than the previous one even when the clock was set back. Files are never removed, because
// the tokens are in them: the directory grows with the number of different names. A file that is
// removed or replaced by hand lets a second holder in, and the first one notices only by Renew.
//
// flock(1) excludes holders of the same file (flock FILE CMD, or exec 9<FILE in a shell), once this
// package has made it. Waiters notice the end of flock(1) when they try without a notice. A command
// that truncates a file (exec 9>FILE) destroys the token. A file without a token is refused with an
// error, not initialised again.
//
// # The directory
//
// A directory that doesn't exist is created with mode 0700, and so are its parents. Some
// directories are refused, with an error that gives the reason and matches [locker.ErrOption]:
//
//   - a directory that belongs to a user other than this one or root, or that all may write to,
//     because anybody who can replace a lock file can let a second holder in (members of its group are
//     trusted);
//   - a directory with an untrusted path: a directory or symbolic link on it belongs to another
//     user, or all may write to a directory on it that isn't sticky. Anybody who can replace an
//     element of the path can lead two processes to different directories. Symbolic links are
//     followed once, when the Locker is opened;
//   - a directory on a network or cluster file system, because flock and the creation of files are
//     not reliable between machines there, and locks of one machine would look like locks of all.
//
// On some file systems locks work, but less is promised. The Locker's Guarantees say so and why,
// and [locker.Correctness] refuses them:
//
//   - in memory (tmpfs), tokens don't survive a reboot;
//   - on layers (overlayfs), such as the root of most containers, another container has another
//     directory of the same name, and the tokens end with the container. So the scope is one
//     process. Mount the same directory of the host into all containers that must exclude each
//     other;
//   - a file system that isn't known to be local is treated in the same way.
//
// A container's tmpfs, or a container's root that is not on layers (as with an engine on Btrfs or
// ZFS), can't be distinguished from one of the machine: what this package calls one machine is all
// processes that see the same directory.
//
// # Waiting
//
// On Linux the kernel notifies waiters (inotify) when a holder has closed its file. Then the
// waiters of all processes try, and any of them wins. They also try about once a second, in case a
// notice is missed. Elsewhere, and where the user has no inotify instance left (128 by default),
// they try about 25 times a second.
//
// While a Locker waits, and for a second after that, it runs one goroutine that reads the notices.
// It ends by itself, and at Close.
//
// # Child processes
//
// Descriptors of lock files are closed in programs that the holder starts. A holder that wants a
// child to keep the lock passes it a descriptor explicitly; see [Handle].
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

// New returns a Locker that keeps its files in dir, which it creates if it doesn't exist. All
// processes that must exclude each other use the same directory. A relative dir is resolved now,
// from the present working directory. The error matches [locker.ErrOption] when dir can't be
// trusted, and [errors.ErrUnsupported] on a system without flock(2).
func New(dir string) (locker.Locker, error) {
	// ObeysContext isn't declared: nothing interrupts a system call on a file system that hangs.
	l, err := newLocker(dir, driver.Config{Features: locker.FeatureSlots})
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	return l, nil
}

// Guarantees is what a Locker of this package promises when its directory is on a disk of this
// machine. On a memory file system it promises less: [locker.FencingUntilDataLoss] and
// [locker.RestartNothing]. In a container's own file system, or on an unknown file system, it has
// [locker.ScopeProcess] and [locker.InspectionNone] as well. In a container whose processes have a
// namespace of their own it has InspectionNone: nothing there shows what others have locked.
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
		Inspection: inspection,
		Break:      locker.BreakNone,
		RoundTrips: 0,
		Cost:       locker.CostNone,
	}
}

// Handle is what a lease of this package offers in addition to [locker.Lease]. [locker.As] finds
// it.
type Handle interface {
	// File returns a copy of the lock's descriptor. The caller closes it, which doesn't affect the
	// lease. The copy is for a child process that must hold the lock together with its parent
	// ([os/exec.Cmd.ExtraFiles]): the kernel then keeps the lock until the last process that has
	// the descriptor has ended. So a child that survives its parent, and every process that
	// inherits the descriptor from the child, is protected until it ends. Release unlocks for all
	// of them at once, so call it after the child has ended. Nothing may be written to the file.
	//
	// It fails with [os.ErrClosed] once the lease is over, also while its minimum hold keeps the lock.
	File() (*os.File, error)
}

// DefaultDir is the user's private directory for lock files: ~/.local/state/locker, on macOS
// ~/Library/Application Support/locker. DefaultDir doesn't create it.
//
// Jobs of cron and of systemd must find the same directory as a login shell, or they don't exclude
// each other. So it depends only on the user's home: not on XDG_RUNTIME_DIR or XDG_STATE_HOME,
// which only a login sets, and not on TMPDIR. The home is taken from the environment, and from the
// user database where the environment has none.
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
		wrong = "it has a user"
	case u.Host != "":
		wrong = "it has a host; the path begins with a third slash"
	case u.Fragment != "":
		wrong = "it has a fragment; write %23 for a # in the path"
	case !strings.HasPrefix(u.Path, "/"):
		wrong = "it has no absolute path"
	case strings.ContainsRune(u.Path, 0):
		wrong = "its path contains a NUL"
	default:
		return filepath.Clean(u.Path), nil
	}
	return "", fmt.Errorf("%w: invalid URL: want file:///absolute/path, as in file:///var/lib/locks: %s", locker.ErrOption, wrong)
}

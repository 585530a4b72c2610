package filebackend_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// inspectable opens a Locker, unless nothing shows here who has locked a file.
func inspectable(t *testing.T, dir string) locker.Locker {
	t.Helper()
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if l.Guarantees().Inspection == locker.InspectionNone {
		_, err := locker.Inspect(t.Context(), l, "a", locker.Look{})
		if !errors.Is(err, locker.ErrNoInspector) {
			t.Errorf("Inspect = %v, want ErrNoInspector", err)
		}
		t.Skipf("%v", err)
	}
	return l
}

func TestInspectFiles(t *testing.T) {
	dir := t.TempDir()
	l := inspectable(t, dir)
	lease, err := l.Acquire(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	s, err := locker.Inspect(t.Context(), l, "a/b", locker.Look{Waiters: 1})
	if err != nil || s.Holder == nil || s.Holder.Token != lease.Token() || s.Holder.Session != strconv.Itoa(os.Getpid()) || s.Waiting != -1 {
		t.Fatalf("Inspect = %+v with %+v, %v, want this process with token %v", s, s.Holder, err, lease.Token())
	}
	if owner, pid := filebackend.DecodeHolder(filebackend.Encode(1, "0123456789abcdef0123456789abcdef", 42)); owner != "0123456789abcdef0123456789abcdef" || pid != 42 {
		t.Errorf("a record names %q and %d", owner, pid)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Somebody else, as flock(1) is: nothing is known but the process. The record is of an earlier
	// holder, which was in another process.
	if err := os.WriteFile(s.Key, filebackend.Encode(7, "0123456789abcdef0123456789abcdef", 1<<22), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s, err = locker.Inspect(t.Context(), l, "a/b", locker.Look{Waiters: 1})
	if want := (locker.Party{Session: strconv.Itoa(os.Getpid())}); err != nil || s.Holder == nil || *s.Holder != want {
		t.Errorf("Inspect = %+v, %v, want a process of which nothing else is known", s.Holder, err)
	}
}

// Only a regular file has a record. To open a FIFO would wait for a writer.
func TestInspectWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, folder := dir+"/fifo.lock", dir+"/folder.lock"
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Mkdir(folder, 0o700), os.Symlink(fifo, dir+"/link.lock")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, folder, dir + "/link.lock"} {
		if token, err := filebackend.NewestToken(path); token != 0 || err != nil {
			t.Errorf("the newest record of %s = %v, %v, want none", path, token, err)
		}
	}
	l := inspectable(t, dir)
	for path, flags := range map[string]int{fifo: syscall.O_RDWR, folder: syscall.O_RDONLY} {
		fd, err := syscall.Open(path, flags|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"fifo", "folder"} {
		s, err := locker.Inspect(t.Context(), l, name, locker.Look{})
		if want := (locker.Party{Session: strconv.Itoa(os.Getpid())}); err != nil || s.Holder == nil || *s.Holder != want {
			t.Errorf("Inspect(%q) = %+v, %v, want this process", name, s.Holder, err)
		}
	}
	if got := listed(t, l, ""); !slices.Equal(got, []string{"fifo", "folder"}) {
		t.Errorf("List = %q, want the FIFO and the directory, which are locked", got)
	}
}

// What others have put in the directory isn't listed. A name that is too long for a file is not
// known.
func TestListFiles(t *testing.T) {
	dir := t.TempDir()
	l := inspectable(t, dir)
	long := strings.Repeat("Ä/", 60)
	names := []string{"%2F", "a/b", "a/c", "b", long}
	for _, name := range append([]string{"free"}, names...) {
		lease, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "free" {
			_ = lease.Release(t.Context())
		}
	}
	for _, name := range []string{"A.lock", "%61.lock", "foreign", ".lock", "sha256=x"} {
		f, err := os.Create(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	if got := listed(t, l, ""); !slices.Equal(got, []string{"", "%2F", "a/b", "a/c", "b"}) {
		t.Errorf("List = %q, want all names, and one that isn't known", got)
	}
	if got := listed(t, l, "a/"); !slices.Equal(got, []string{"a/b", "a/c"}) {
		t.Errorf("List of a/ = %q", got)
	}
}

func listed(t *testing.T, l locker.Locker, prefix string) (names []string) {
	t.Helper()
	for s, err := range locker.List(t.Context(), l, prefix, 0) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// The table of 25 locks is shorter than a page, and longer than what os.ReadFile asks for at first.
func TestListShowsLocksAmongOthersThatComeAndGo(t *testing.T) {
	dir := t.TempDir()
	l := inspectable(t, dir)
	const held = 10
	for i := range held {
		if _, err := l.Acquire(t.Context(), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	var others []int
	for i := range 20 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("other%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		others = append(others, int(f.Fd()))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				_ = syscall.Flock(others[n%len(others)], syscall.LOCK_EX)
				_ = syscall.Flock(others[(n+5)%len(others)], syscall.LOCK_UN) // fifteen are locked
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for i := range 1000 {
		if found := listed(t, l, ""); len(found) != held {
			t.Fatalf("list %d = %v, want %d locks", i, found, held)
		}
	}
}

func TestHoldersInTheLockTable(t *testing.T) {
	const table = `1: FLOCK  ADVISORY  WRITE 1371 fe:00:7 0 EOF
2: POSIX  ADVISORY  WRITE 1372 fe:00:8 0 EOF
3: FLOCK  ADVISORY  WRITE 1373 fe:01:9 0 EOF
4: FLOCK  ADVISORY  WRITE 1374 fe:00:10 0 EOF
4: -> FLOCK  ADVISORY  WRITE 1375 fe:00:11 0 EOF
5: FLOCK
`
	got := filebackend.NewHolders("ext4")
	got.Add(table, "fe:00")
	if got.Files() != 2 || !slices.Equal(got.PIDs(7), []int{1371}) || !slices.Equal(got.PIDs(10), []int{1374}) {
		t.Errorf("holders = %v, want 1371 of 7 and 1374 of 10", got)
	}
}

// On Btrfs and its like the table has one number for files of different subvolumes.
func TestHolderAmongFilesWithOneNumber(t *testing.T) {
	const device, somebody = "00:1f", 1 << 22 // no process has this id
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	self, path := os.Getpid(), filepath.Join(dir, filebackend.FileName("x", 0))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	number := info.Sys().(*syscall.Stat_t).Ino
	find := func(fsName string, pids ...int) *locker.Party {
		t.Helper()
		held := filebackend.NewHolders(fsName)
		for range 2 { // readings
			var table strings.Builder
			for _, pid := range pids {
				fmt.Fprintf(&table, "1: FLOCK  ADVISORY  WRITE %d %s:%d 0 EOF\n", pid, device, number)
			}
			held.Add(table.String(), device)
		}
		if got := held.PIDs(number); !slices.Equal(got, pids) {
			t.Errorf("%s: processes = %v, want %v", fsName, got, pids)
		}
		p, err := held.Of(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := func(what string, p *locker.Party, pid int, token locker.Token) {
		t.Helper()
		switch {
		case pid == 0 && p != nil:
			t.Errorf("%s: held by %+v, want nobody", what, p)
		case pid != 0 && (p == nil || p.Session != strconv.Itoa(pid) || p.Token != token):
			t.Errorf("%s: held by %+v, want process %d with token %d", what, p, pid, token)
		}
	}
	for magic, repeated := range map[uint32]bool{0x9123683e: true, 0xca451a4e: false, 0x3434: false, 0xef53: false, 0x58465342: false} {
		name := filebackend.KindName(magic)
		if p := find(name, somebody); (p == nil) != repeated {
			t.Errorf("%s: another process that may have locked another file counts as %+v", name, p)
		}
		want(name, find(name, self), self, lease.Token())
	}
	want("the other file is first in the table", find("Btrfs", somebody, self), self, lease.Token())
	want("the other file is last in the table", find("Btrfs", self, somebody), self, lease.Token())

	// The record of a lock that is free names this process, which has locked the other file.
	release(t, lease)
	want("a former holder", find("Btrfs", self), 0, 0)
	lease = acquire(t, open(t, dir), "x")

	// The record doesn't name the holder, as with flock(1).
	if err := os.WriteFile(path, filebackend.Encode(7, "0123456789abcdef0123456789abcdef", somebody-1), 0o600); err != nil {
		t.Fatal(err)
	}
	want("a process that has ended", find("Btrfs", somebody-1), somebody-1, 7)
	want("a holder without a record", find("Btrfs", somebody, self, somebody-2), self, 0)
	release(t, lease)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want("a process that has the file open and not locked", find("Btrfs", self), 0, 0)
}

// The process that has the lock may have another number in the namespace in which it has written
// the record.
func TestIsProcess(t *testing.T) {
	for own, want := range map[int]bool{os.Getpid(): true, 1 << 22: false} {
		if filebackend.IsProcess(os.Getpid(), own) != want {
			t.Errorf("IsProcess(%d) = %v", own, !want)
		}
	}
	if filebackend.IsProcess(1<<22, 7) {
		t.Error("a process that has ended is another one's")
	}
}

//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/filebackend"
)

// The format may never change: two versions that run side by side must read each other's tokens.
func TestRecordGolden(t *testing.T) {
	const want = "locker1 token=0001795000000000001 owner=00112233445566778899aabbccddeeff pid=0000004242 crc=ba636a1f\n"
	got := filebackend.Encode(1_795_000_000_000_001, "00112233445566778899aabbccddeeff", 4242)
	if string(got) != want || len(got) != filebackend.RecordSize {
		t.Errorf("record %q, want %q", got, want)
	}
	if token, ok := filebackend.Decode(got); token != 1_795_000_000_000_001 || !ok {
		t.Errorf("Decode = %d, %v", token, ok)
	}
	if _, ok := filebackend.Decode(filebackend.Encode(math.MaxInt64, driver.NewOwner(), math.MaxInt32)); !ok {
		t.Error("the largest record is not valid")
	}
}

// Every change of a single bit is noticed.
func TestRecordChecksum(t *testing.T) {
	record := filebackend.Encode(1, driver.NewOwner(), 1)
	for i := range 8 * len(record) {
		record[i/8] ^= 1 << (i % 8)
		if token, ok := filebackend.Decode(record); ok {
			t.Errorf("bit %d changed: valid, token %d", i, token)
		}
		record[i/8] ^= 1 << (i % 8)
	}
}

func TestNextToken(t *testing.T) {
	now := time.UnixMicro(1000)
	for _, c := range []struct{ last, want locker.Token }{
		{0, 1000}, {999, 1000}, {1000, 1001}, {5000, 5001}, {math.MaxInt64 - 1, math.MaxInt64}, {math.MaxInt64, 0},
	} {
		if got, err := filebackend.Next(c.last, now); got != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("next(%d) = %d, %v, want %d", c.last, got, err, c.want)
		}
	}
	if got, err := filebackend.Next(0, time.UnixMicro(-5)); got != 1 || err != nil {
		t.Errorf("next(0) before 1970 = %d, %v, want 1", got, err)
	}
}

// lockFile makes a lock's file by using it once, and opens it.
func lockFile(t *testing.T) *os.File {
	dir := t.TempDir()
	acquireRelease(t, open(t, dir), "x")
	f, err := os.OpenFile(filepath.Join(dir, filebackend.FileName("x", 0)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// disk is a lock file on a machine that fails: what programs read, and what a crash of the machine
// leaves.
type disk struct {
	t             *testing.T
	cache, stored []byte
	fate          func() fate // of the next write
	dead          bool        // the process that mints was killed
}

type fate int

const (
	written fate = iota // and on the disk
	failed              // the disk reports an error, and may contain anything
	crashed             // the machine, in the middle of the write
	killed              // the process, when others can read the write and before it is synced
)

var errDisk = errors.New("disk error")

func newDisk(t *testing.T, last locker.Token) *disk {
	d := &disk{t: t, cache: filebackend.BlankFile(), fate: func() fate { return written }}
	copy(d.cache, filebackend.Encode(last, driver.NewOwner(), 1))
	d.stored = slices.Clone(d.cache)
	return d
}

func (d *disk) Name() string { return "disk" }

func (d *disk) ReadAt(b []byte, at int64) (int, error) { return copy(b, d.cache[at:]), nil }

func (d *disk) WriteSynced(b []byte, at int64) error {
	if d.dead {
		return errDisk
	}
	fate := d.fate()
	copy(d.cache[at:], b)
	if fate == killed {
		d.dead = true
		return errDisk
	}
	switch cut := rand.N(len(b) + 1); {
	case fate == written:
		copy(d.stored[at:], b)
		return nil
	case rand.N(3) == 0: // torn, and what follows is lost
		clear(d.stored[at:][:len(b)])
		fallthrough
	default: // cut off
		copy(d.stored[at:], b[:cut])
	}
	if fate == crashed {
		d.crash()
	}
	return errDisk
}

func (d *disk) SyncEarlier() error {
	copy(d.stored, d.cache)
	return nil
}

// crash leaves what is on the disk.
func (d *disk) crash() { copy(d.cache, d.stored) }

func (d *disk) mint() (locker.Token, error) {
	d.dead = false // it is another process
	return filebackend.Mint(d, func() error { return nil })
}

// farAhead is a token that the clock won't reach, so that the clock can't make the next one larger.
const farAhead = locker.Token(math.MaxInt64 / 2)

// A machine that crashes may cut a record off after any byte. Then it was never granted, and the
// previous record still counts.
func TestTornWrite(t *testing.T) {
	for cut := range filebackend.RecordSize {
		for slot := range int64(2) {
			d := newDisk(t, farAhead)
			last := farAhead
			for range slot + 1 {
				last, _ = d.mint()
			}
			torn := make([]byte, filebackend.RecordSize)
			copy(torn, filebackend.Encode(last+1000, driver.NewOwner(), 1)[:cut])
			copy(d.cache[slot*filebackend.SlotSize:], torn)
			if token, err := d.mint(); token != last+1 || err != nil {
				t.Fatalf("slot %d cut off after %d bytes: token %d, %v, want %d", slot, cut, token, err, last+1)
			}
		}
	}
}

// Whatever writes and crashes do, the tokens of grants rise, and the file is never given up as
// damaged.
func TestTokensRiseOverDiskFailures(t *testing.T) {
	for range 2000 {
		d := newDisk(t, farAhead)
		d.fate = func() fate { return fate(rand.N(4)) }
		last := farAhead
		for range 20 {
			switch token, err := d.mint(); {
			case errors.Is(err, errDisk): // not granted
			case err != nil:
				t.Fatal(err)
			case token <= last:
				t.Fatalf("token %d after %d", token, last)
			default:
				last = token
			}
			if rand.N(4) == 0 {
				d.crash()
			}
		}
	}
}

// A process that is killed between the write and the sync leaves a record that a crash of the machine
// undoes. The next grant overwrites the other slot, and that write may be torn.
func TestKilledBeforeTheSync(t *testing.T) {
	fates := []fate{written, killed, crashed}
	for range 20 { // what a torn write leaves is random
		d, next := newDisk(t, farAhead), 0
		d.fate = func() fate { next++; return fates[min(next-1, len(fates)-1)] }
		granted, err := d.mint()
		if err != nil {
			t.Fatal(err)
		}
		for range len(fates) - 1 {
			if _, err := d.mint(); !errors.Is(err, errDisk) {
				t.Fatalf("mint = %v, want an error of the disk", err)
			}
		}
		d.fate = func() fate { return written }
		if token, err := d.mint(); err != nil || token <= granted {
			t.Fatalf("token %d, %v after %d", token, err, granted)
		}
	}
}

// The first holder of a name has written the file's directory entry to the disk, or there is no
// grant.
func TestFirstGrantSyncsDirectory(t *testing.T) {
	d, syncs := newDisk(t, 0), 0
	result := errDisk
	syncDir := func() error { syncs++; return result }
	if token, err := filebackend.Mint(d, syncDir); !errors.Is(err, errDisk) {
		t.Errorf("mint = %d, %v, want the directory's error", token, err)
	}
	result = nil
	for range 3 {
		if _, err := filebackend.Mint(d, syncDir); err != nil {
			t.Error(err)
		}
	}
	if syncs != 2 {
		t.Errorf("the directory was synced %d times, want 2", syncs)
	}
}

// A file without a valid record is never initialised again: its tokens could repeat.
func TestDamagedFile(t *testing.T) {
	for what, damage := range map[string]func(f *os.File) error{
		"emptied":     func(f *os.File) error { return f.Truncate(0) },
		"overwritten": func(f *os.File) error { _, err := f.WriteAt(make([]byte, 2*filebackend.SlotSize), 0); return err },
		"of a later version": func(f *os.File) error {
			for slot := range int64(2) {
				if _, err := f.WriteAt([]byte("locker2"), slot*filebackend.SlotSize); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		f := lockFile(t)
		if err := damage(f); err != nil {
			t.Fatal(err)
		}
		l := open(t, filepath.Dir(f.Name()))
		_, err := locker.TryAcquire(t.Context(), l, "x")
		if err == nil || !strings.Contains(err.Error(), f.Name()) || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%s: Acquire = %v, want an error that names the file and what to do", what, err)
		}
		if err := os.Rename(f.Name(), f.Name()+".old"); err != nil {
			t.Fatal(err)
		}
		acquireRelease(t, l, "x")
	}
}

func TestTokensExhausted(t *testing.T) {
	f := lockFile(t)
	if _, err := f.WriteAt(filebackend.Encode(math.MaxInt64, driver.NewOwner(), 1), 0); err != nil {
		t.Fatal(err)
	}
	_, err := locker.TryAcquire(t.Context(), open(t, filepath.Dir(f.Name())), "x")
	if err == nil || !strings.Contains(err.Error(), f.Name()) {
		t.Errorf("Acquire = %v, want an error that names the file", err)
	}
}

// The label follows the record, which versions without labels read as before.
func TestLabelGolden(t *testing.T) {
	const owner, label = "00112233445566778899aabbccddeeff", "1795221171926 web-7f9c/4711/reportd"
	record := filebackend.Encode(1_795_000_000_000_001, owner, 4242)
	const want = "label 1795000000000001 1795221171926 web-7f9c/4711/reportd crc="
	got := filebackend.EncodeWithLabel(1_795_000_000_000_001, owner, 4242, label)
	if !bytes.HasPrefix(got, append(record, want...)) || len(got) != 512 {
		t.Errorf("record %q, want the one without a label and %q", got, want)
	}
	if text, ok := filebackend.DecodeLabel(got); text != label || !ok {
		t.Errorf("the label that is read is %q, %v, want %q", text, ok, label)
	}
	if blank := filebackend.EncodeWithLabel(1, owner, 1, ""); len(bytes.Trim(blank[filebackend.RecordSize:], "\x00")) > 0 {
		t.Errorf("without a label %q follows the record", blank[filebackend.RecordSize:])
	}
	longest := driver.Label{Holder: strings.Repeat("n", locker.MaxHolder), Asked: time.UnixMilli(253402300799999),
		Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}.String()
	if text, ok := filebackend.DecodeLabel(filebackend.EncodeWithLabel(math.MaxInt64, owner, math.MaxInt32, longest)); text != longest || !ok {
		t.Errorf("the longest label is read as %q, %v", text, ok)
	}
}

// Whatever follows a record, the record counts. Only a label that was written with it is shown.
func TestLabelThatIsNone(t *testing.T) {
	record := filebackend.Encode(7, driver.NewOwner(), 1)
	whole := filebackend.EncodeWithLabel(7, driver.NewOwner(), 1, "0 web")
	older := filebackend.EncodeWithLabel(6, driver.NewOwner(), 1, "0 former")
	texts := [][]byte{
		nil, []byte("\n"), []byte("label"), []byte("label 7 \n"), []byte("label 7 0 web\n"), make([]byte, 400),
		bytes.Repeat([]byte("\xff\n"), 1<<19), older[filebackend.RecordSize:],
	}
	for i := range len("label 7 0 web crc=00000000\n") {
		texts = append(texts, whole[filebackend.RecordSize:filebackend.RecordSize+i])
	}
	for _, text := range texts {
		b := append(bytes.Clone(record), text...)
		if label, ok := filebackend.DecodeLabel(b); label != "" || !ok {
			t.Errorf("%.60q after a record: label %q, valid %v; want no label, and a valid record", text, label, ok)
		}
		if token, ok := filebackend.Decode(b[:filebackend.RecordSize]); token != 7 || !ok {
			t.Errorf("%.60q after a record: token %v, %v", text, token, ok)
		}
	}
}

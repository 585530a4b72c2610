package images

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// debian is the name of a release, such as "trixie"; its base image is the base of the images that
// are built.
type debian string

func (d debian) tag() string { return "localhost/locker/debian:" + string(d) + "-minbase" }

// make builds the base image, unless the engine has it.
func (d debian) make(ctx context.Context, progress func(string)) error {
	if has(ctx, d.tag()) {
		return nil
	}
	if err := ensureDebootstrap(ctx, progress); err != nil {
		return err
	}
	progress("building " + d.tag())
	dir, err := os.MkdirTemp("", "locker-debian-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := run(exec.CommandContext(ctx, "debootstrap", "--variant=minbase", string(d), dir)); err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-C", dir, "-c", ".")
	load := exec.CommandContext(ctx, "docker", "import", "-", d.tag())
	pipe, err := tar.StdoutPipe()
	if err != nil {
		return err
	}
	if err := tar.Start(); err != nil {
		return err
	}
	load.Stdin = pipe
	_, err = run(load)
	_ = pipe.Close() // otherwise tar would wait forever if the import failed
	return errors.Join(err, tar.Wait())
}

// ensureDebootstrap installs debootstrap if it is missing and can be installed.
func ensureDebootstrap(ctx context.Context, progress func(string)) error {
	if os.Getuid() != 0 {
		return errors.New("building a Debian image needs root")
	}
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("building a Debian image needs debootstrap, and it can't be installed: there is no apt-get")
	}
	progress("installing debootstrap")
	install := func() error {
		_, err := run(exec.CommandContext(ctx, "apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"))
		return err
	}
	if install() == nil {
		return nil
	}
	// The package lists may be missing.
	if _, err := run(exec.CommandContext(ctx, "apt-get", "update")); err != nil {
		return err
	}
	return install()
}

package images

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// debian is a release, and the base of images.
type debian string

func (d debian) tag() string { return "localhost/locker/debian:" + string(d) + "-minbase" }

// make makes the base image, unless it is there.
func (d debian) make(ctx context.Context, progress func(string)) error {
	if has(ctx, d.tag()) {
		return nil
	}
	if err := needDebootstrap(ctx, progress); err != nil {
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
	_ = pipe.Close() // or tar would wait for a reader that has failed
	return errors.Join(err, tar.Wait())
}

// needDebootstrap installs debootstrap where that is possible.
func needDebootstrap(ctx context.Context, progress func(string)) error {
	if os.Getuid() != 0 {
		return errors.New("making an image of Debian needs root")
	}
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("making an image of Debian needs debootstrap, and there is no apt-get to install it with")
	}
	progress("installing debootstrap")
	install := func() error {
		_, err := run(exec.CommandContext(ctx, "apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"))
		return err
	}
	if install() == nil {
		return nil
	}
	if _, err := run(exec.CommandContext(ctx, "apt-get", "update")); err != nil { // it may know of no packages yet
		return err
	}
	return install()
}

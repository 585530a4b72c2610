package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// debian is the base of all images that are built here.
const (
	suite  = "trixie"
	debian = "localhost/locker/debian:" + suite + "-minbase"
)

// makeDebian makes the base image, unless it is there.
func makeDebian(ctx context.Context, progress func(string)) error {
	if has(ctx, debian) {
		return nil
	}
	if err := needDebootstrap(ctx, progress); err != nil {
		return err
	}
	progress("building " + debian)
	dir, err := os.MkdirTemp("", "locker-debian-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := run(exec.CommandContext(ctx, "debootstrap", "--variant=minbase", suite, dir)); err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-C", dir, "-c", ".")
	load := exec.CommandContext(ctx, "docker", "import", "-", debian)
	if load.Stdin, err = tar.StdoutPipe(); err != nil {
		return err
	}
	if err := tar.Start(); err != nil {
		return err
	}
	_, err = run(load)
	return errors.Join(err, tar.Wait())
}

// needDebootstrap installs debootstrap where that is possible.
func needDebootstrap(ctx context.Context, progress func(string)) error {
	if os.Getuid() != 0 {
		return fmt.Errorf("making %s needs root, and debootstrap", debian)
	}
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("making %s needs debootstrap, and there is no apt-get to install it with", debian)
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

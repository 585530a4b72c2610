package images

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
)

//go:embed */*
var recipes embed.FS

// recipe says how an image is built: from Debian's packages, or from a Go program.
type recipe struct {
	name   string
	debian debian
	files  fs.FS
	hash   string
}

func (i Image) recipe() (recipe, error) {
	files, err := fs.Sub(recipes, i.Recipe)
	if err != nil {
		return recipe{}, err
	}
	r := recipe{name: i.Name, debian: debian(i.Debian), files: files}
	hash := sha256.New()
	fmt.Fprintln(hash, r.debian.tag())
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(text), text)
		return err
	})
	r.hash = hex.EncodeToString(hash.Sum(nil)[:6])
	return r, err
}

// tag is the name of the built image. "localhost" keeps Docker from looking for it in a registry.
func (r recipe) tag() string { return "localhost/locker/" + r.name + ":" + r.hash }

func (r recipe) build(ctx context.Context, progress func(string)) error {
	args := []string{"build", "--tag", r.tag()}
	if r.debian != "" {
		if err := r.debian.make(ctx, progress); err != nil {
			return err
		}
		args = append(args, "--build-arg", "BASE="+r.debian.tag())
	}
	dir, err := os.MkdirTemp("", "locker-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, r.files); err != nil {
		return err
	}
	progress("building " + r.tag())
	if r.hasProgram() {
		if err := r.buildProgram(ctx, dir); err != nil {
			return err
		}
	}
	_, err = Docker(ctx, append(args, dir)...)
	return err
}

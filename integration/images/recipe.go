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

// recipe is how an image is made from Debian's packages.
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

// tag is what the image is called when it has been built. "localhost" keeps Docker from looking for it elsewhere.
func (r recipe) tag() string { return "localhost/locker/" + r.name + ":" + r.hash }

func (r recipe) build(ctx context.Context, progress func(string)) error {
	if err := r.debian.make(ctx, progress); err != nil {
		return err
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
	_, err = Docker(ctx, "build", "--tag", r.tag(), "--build-arg", "BASE="+r.debian.tag(), dir)
	return err
}

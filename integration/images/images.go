// Package images names the server images that tests and benchmarks run, and provides them.
//
// An image is the official one, unless its environment variable names another. If the official
// image can't be pulled, because no registry can be reached, it is built from Debian's packages,
// once: the tag contains a hash of the recipe, so a changed recipe is built again. A server that is
// written in Go is built from its module if Docker's default registry has no official image of it.
// A built image understands the same command line and environment as the official image, so that
// tests don't depend on which of them they run.
package images

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Image is the image of one server.
type Image struct {
	Name     string // in this table
	Official string // the reference that is pulled; "": the image is always built
	Recipe   string // the folder with its Dockerfile
	Debian   string // the release whose packages have the same version; "": none is needed
	Soak     bool   // only the long campaigns (make soak) need it
}

// All is the table of all images.
var All = []Image{
	{Name: "redis", Official: "redis:8.0", Recipe: "redis", Debian: "trixie"},
	{Name: "redis7", Official: "redis:7.0", Recipe: "redis", Debian: "bookworm", Soak: true},
	{Name: "valkey", Official: "valkey/valkey:8.1", Recipe: "valkey", Debian: "trixie", Soak: true},
	{Name: "zookeeper", Official: "zookeeper:3.9", Recipe: "zookeeper", Debian: "trixie"},
	{Name: "zookeeper38", Official: "zookeeper:3.8", Recipe: "zookeeper", Debian: "bookworm", Soak: true},
	{Name: "postgres", Official: "postgres:17", Recipe: "postgres", Debian: "trixie"},
	{Name: "postgres15", Official: "postgres:15", Recipe: "postgres", Debian: "bookworm", Soak: true},
	{Name: "pgbouncer", Official: "edoburu/pgbouncer:v1.24.1-p1", Recipe: "pgbouncer", Debian: "trixie"},
	{Name: "etcd", Recipe: "etcd"},
	{Name: "etcd35", Official: "rancher/mirrored-coreos-etcd:v3.5.12", Recipe: "etcd35", Debian: "trixie", Soak: true},
}

// Env is the environment variable that names an image to use in place of this one.
func (i Image) Env() string { return "LOCKER_IMAGE_" + strings.ToUpper(i.Name) }

// Found is an image that the Docker engine has.
type Found struct {
	Ref   string // its reference in Docker
	Built bool   // built on this machine, usually because it can't be pulled
}

// Find returns the image with that name in [All]. If the engine doesn't have it, Find first pulls
// or builds it, which takes some minutes; progress is called with a line for each step.
func Find(ctx context.Context, name string, progress func(string)) (Found, error) {
	i := slices.IndexFunc(All, func(i Image) bool { return i.Name == name })
	if i < 0 {
		return Found{}, fmt.Errorf("images: name %q is invalid: want one of images.All, such as %q", name, All[0].Name)
	}
	if err := Engine(ctx); err != nil {
		return Found{}, err
	}
	found, err := All[i].find(ctx, progress)
	if err != nil {
		return Found{}, fmt.Errorf("images: %s: %w (set %s to use another image)", name, err, All[i].Env())
	}
	return found, nil
}

func (i Image) find(ctx context.Context, progress func(string)) (Found, error) {
	if ref := os.Getenv(i.Env()); ref != "" {
		if has(ctx, ref) {
			return Found{Ref: ref}, nil
		}
		progress("pulling " + ref)
		return Found{Ref: ref}, pull(ctx, ref)
	}
	if i.Official != "" && has(ctx, i.Official) {
		return Found{Ref: i.Official}, nil
	}
	recipe, err := i.recipe()
	if err != nil {
		return Found{}, err
	}
	built := Found{Ref: recipe.tag(), Built: true}
	if has(ctx, built.Ref) {
		return built, nil
	}
	if i.Official == "" {
		return built, recipe.build(ctx, progress)
	}
	progress("pulling " + i.Official)
	pullErr := pull(ctx, i.Official)
	if pullErr == nil {
		return Found{Ref: i.Official}, nil
	}
	progress("the pull failed; building " + built.Ref + " from Debian's packages, once")
	if err := recipe.build(ctx, progress); err != nil {
		return Found{}, fmt.Errorf("pulling failed (%w), and so did building: %w", pullErr, err)
	}
	return built, nil
}

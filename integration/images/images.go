// Package images names the server images that tests and benchmarks run, and gets them.
//
// An image is the official one, unless its environment variable names another. Where it can't be pulled, because no
// registry can be reached, it is built from Debian's packages, once: the tag holds a hash of the recipe, so a recipe
// that has changed is built anew. A server in Go is built of its module, where there is no official image of it that has
// a name without a registry's. What it builds understands the same command line and environment as the official image,
// so that tests don't know which of them they run.
package images

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Image is one server.
type Image struct {
	Name     string // of the image here
	Official string // what is pulled; "": it is always built
	Recipe   string // the folder of how it is built
	Debian   string // the release whose packages have that version; "": the recipe needs none
	Soak     bool   // only the long runs need it
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

// Env is the environment variable that names another image to be used in its place.
func (i Image) Env() string { return "LOCKER_IMAGE_" + strings.ToUpper(i.Name) }

// Found is an image that the Docker engine has.
type Found struct {
	Ref   string // what Docker calls it
	Built bool   // here, mostly because it can't be pulled
}

// Find returns the image of that name in [All], and gets it first where the engine doesn't have it: by pulling it, or
// by building it. That takes some minutes; progress is told of it, a line for each step.
func Find(ctx context.Context, name string, progress func(string)) (Found, error) {
	i := slices.IndexFunc(All, func(i Image) bool { return i.Name == name })
	if i < 0 {
		return Found{}, fmt.Errorf("images: no image is called %q", name)
	}
	if err := Engine(ctx); err != nil {
		return Found{}, err
	}
	found, err := All[i].find(ctx, progress)
	if err != nil {
		return Found{}, fmt.Errorf("images: %s: %w (the variable %s may name another image)", name, err, All[i].Env())
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
	unreachable := pull(ctx, i.Official)
	if unreachable == nil {
		return Found{Ref: i.Official}, nil
	}
	progress("it can't be pulled; building " + built.Ref + " from Debian's packages, once")
	if err := recipe.build(ctx, progress); err != nil {
		return Found{}, fmt.Errorf("it can't be pulled (%w), nor built: %w", unreachable, err)
	}
	return built, nil
}

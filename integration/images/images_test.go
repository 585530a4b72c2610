package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryImageHasARecipe(t *testing.T) {
	tags := make(map[string]bool)
	for _, i := range All {
		r, err := i.recipe()
		if err != nil || r.hash == "" {
			t.Errorf("the recipe of %s: %v", i.Name, err)
		}
		if tags[r.tag()] {
			t.Errorf("two images have the tag %s", r.tag())
		}
		tags[r.tag()] = true
		if _, err := r.files.Open("Dockerfile"); err != nil {
			t.Errorf("the recipe of %s: %v", i.Name, err)
		}
	}
}

// fakeEngine replaces the docker command by one with a list of images that the engine has, and of
// images that a registry has. It returns the pulls and builds that were requested.
func fakeEngine(t *testing.T, has, canPull []string) (requested func() string) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
case "$1 $2" in
"version --format") echo 1 ;;
"image inspect") grep -qxF "$5" ` + dir + `/has ;;
"pull --quiet") echo "pull $3" >>` + dir + `/requested; grep -qxF "$3" ` + dir + `/canpull || { echo "no route" >&2; exit 1; } ;;
"build --tag") echo "build $3" >>` + dir + `/requested ;;
*) exit 1 ;;
esac
`
	for name, text := range map[string]string{
		"docker": script, "has": strings.Join(has, "\n") + "\n", "canpull": strings.Join(canPull, "\n") + "\n", "requested": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "requested"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", ")
	}
}

func TestFind(t *testing.T) {
	i := All[0]
	r, err := i.recipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what         string
		env          string
		has, canPull []string
		want         Found
		requested    string
	}{
		{"the engine has the official image", "", []string{i.Official, r.tag()}, nil, Found{Ref: i.Official}, ""},
		{"an image was built before", "", []string{r.tag()}, []string{i.Official}, Found{Ref: r.tag(), Built: true}, ""},
		{"the official image can be pulled", "", nil, []string{i.Official}, Found{Ref: i.Official}, "pull " + i.Official},
		{"the official image can't be pulled", "", []string{r.debian.tag()}, nil, Found{Ref: r.tag(), Built: true}, "pull " + i.Official + ", build " + r.tag()},
		{"an image of another recipe was built before", "", []string{r.debian.tag(), r.tag() + "0"}, nil, Found{Ref: r.tag(), Built: true}, "pull " + i.Official + ", build " + r.tag()},
		{"the variable names another image", "mine:1", []string{i.Official, r.tag(), "mine:1"}, nil, Found{Ref: "mine:1"}, ""},
		{"the variable names an image that must be pulled", "mine:1", []string{i.Official}, []string{"mine:1"}, Found{Ref: "mine:1"}, "pull mine:1"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			requested := fakeEngine(t, tc.has, tc.canPull)
			t.Setenv(i.Env(), tc.env)
			got, err := Find(t.Context(), i.Name, func(string) {})
			if err != nil || got != tc.want {
				t.Errorf("Find = %+v, %v, want %+v", got, err, tc.want)
			}
			if requested := requested(); requested != tc.requested {
				t.Errorf("the engine received %q, want %q", requested, tc.requested)
			}
		})
	}
}

func TestFindErrors(t *testing.T) {
	fakeEngine(t, nil, nil)
	t.Setenv(All[0].Env(), "mine:1")
	_, err := Find(t.Context(), All[0].Name, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "no route") || !strings.Contains(err.Error(), All[0].Env()) {
		t.Errorf("Find of an image that can't be pulled = %v, want the reason and the variable", err)
	}
	if _, err := Find(t.Context(), "nosuch", func(string) {}); err == nil {
		t.Error("Find of an image that isn't in the table = nil, want an error")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(t.Context(), All[0].Name, func(string) {}); err == nil || !strings.Contains(err.Error(), "no Docker engine") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Find without Docker = %v, want one line that says that no engine answers", err)
	}
}

func TestPauseRetries(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
cd ` + dir + `
what=$1
shift
for c; do
	case "$what $c" in
	"pause busy") [ -e tried ] && echo $c >>paused || { touch tried; echo "OCI runtime pause failed: unable to freeze: unknown" >&2; } ;;
	"pause missing") echo "No such container" >&2 ;;
	"pause "*) grep -q $c paused && echo "$c is already paused" >&2 || echo $c >>paused ;;
	"inspect --"*|"inspect {{"*) ;;
	"inspect "*) grep -q $c paused || echo $c ;;
	esac
done 2>complaints
cat complaints >&2
test ! -s complaints
`
	for name, text := range map[string]string{"docker": script, "paused": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if _, err := Docker(t.Context(), "pause", "one", "busy", "two"); err != nil {
		t.Errorf("pause = %v, want nil", err)
	}
	paused, err := os.ReadFile(filepath.Join(dir, "paused"))
	if got := strings.Fields(string(paused)); err != nil || strings.Join(got, " ") != "one two busy" {
		t.Errorf("paused = %q, %v, want all three, the busy one last", got, err)
	}
	if _, err := Docker(t.Context(), "pause", "missing"); err == nil || !strings.Contains(err.Error(), "No such container") {
		t.Errorf("pause of a missing container = %v, want the engine's error", err)
	}
}

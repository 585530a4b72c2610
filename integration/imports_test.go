package integration

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module      = "github.com/fencedlock/locker"
	redisClient = "github.com/redis/go-redis/v9"
	etcdClient  = "go.etcd.io/etcd/client/v3"
	pgClient    = "github.com/jackc/pgx/v5"
	zkClient    = "github.com/go-zookeeper/zk"
)

// imports lists everything that a package depends on outside the standard library, itself left out; with tests what
// its tests need too.
func imports(t *testing.T, pkg string, tests bool) []string {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	if tests {
		args = append(args, "-test")
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, pkg)...).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pkg, err)
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ") // a test variant is listed as "path [variant]"
		path = strings.TrimSuffix(strings.TrimSuffix(path, ".test"), "_test")
		if path != "" && path != pkg && !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// The house's rules: who may import whom. They keep a consumer of one backend from paying for the others.
func TestImports(t *testing.T) {
	root, driver, kit := module, module+"/driver", module+"/driver/kit"
	redisclient := module + "/internal/redisclient"
	for _, tc := range []struct {
		pkg     string
		allowed []string // outside the standard library
		client  string   // whose library may be used, with all that it needs
	}{
		{root, nil, ""},
		{driver, []string{root}, ""},
		{kit, []string{root, driver}, ""},
		{module + "/middleware", []string{root}, ""},
		{module + "/membackend", []string{root, driver, kit}, ""},
		{module + "/filebackend", []string{root, driver, kit}, ""},
		{module + "/redisbackend", []string{root, driver, kit, redisclient}, redisClient},
		{module + "/redlockbackend", []string{root, driver, kit, redisclient}, redisClient},
		{redisclient, []string{root, driver, kit}, redisClient},
		{module + "/etcdbackend", []string{root, driver, kit}, etcdClient},
		{module + "/pgbackend", []string{root, driver, kit}, pgClient + "/pgxpool"},
		{module + "/zkbackend", []string{root, driver, kit}, zkClient},
		{module + "/conformance", []string{root, module + "/middleware", "github.com/anishathalye/porcupine"}, ""},
		{module + "/internal/redlockmodel", nil, ""},
		{module + "/integration/images", nil, ""},
		{module + "/integration/proxy", nil, ""},
		{module + "/integration/netns", []string{"golang.org/x/sys/unix"}, ""},
	} {
		if tc.client != "" {
			tc.allowed = slices.Concat(tc.allowed, []string{tc.client}, imports(t, tc.client, false))
		}
		for _, dep := range imports(t, tc.pkg, false) {
			if !slices.Contains(tc.allowed, dep) {
				t.Errorf("%s depends on %s", tc.pkg, dep)
			}
		}
	}
}

// What a package's tests import counts for its consumers as well: "go mod tidy" wants its checksums. Containers are
// for this folder alone.
func TestContainersStayHere(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if pkg == module+"/integration" {
			continue
		}
		for _, dep := range imports(t, pkg, true) {
			if strings.Contains(dep, "testcontainers") || strings.Contains(dep, "toxiproxy") {
				t.Errorf("the tests of %s depend on %s", pkg, dep)
			}
		}
	}
}

// Only the command, the examples and the tests of the suite see several backends.
func TestBackendsAreApart(t *testing.T) {
	backends := []string{module + "/membackend", module + "/filebackend", module + "/redisbackend", module + "/redlockbackend", module + "/etcdbackend", module + "/pgbackend", module + "/zkbackend"}
	for _, pkg := range append(backends, module, module+"/driver", module+"/middleware", module+"/conformance") {
		for _, dep := range imports(t, pkg, false) {
			if slices.Contains(backends, dep) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

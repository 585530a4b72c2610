package integration

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
	otelAPI     = "go.opentelemetry.io/otel"
)

// imports lists everything that a package depends on outside the standard library, itself left out.
func imports(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := goCommand(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
	if strings.HasPrefix(pkg, module+"/integration/") {
		cmd.Dir = "."
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pkg, err)
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		path := strings.TrimSpace(line)
		if path != "" && path != pkg && !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// importsOfRoot is the parts of this module that its root imports.
var importsOfRoot = []string{
	module + "/internal/leasectx", module + "/internal/verdict", module + "/internal/callsite", module + "/internal/schemes",
}

// These are the rules for imports. They keep a consumer of one backend from paying for the others.
func TestImports(t *testing.T) {
	root, driver, kit := module, module+"/driver", module+"/driver/kit"
	conformance := module + "/conformance"
	step, process := conformance+"/step", conformance+"/process"
	internal := module + "/internal/"
	redisconn := internal + "redisconn"
	etcdconn, zkconn, pgsession := internal+"etcdconn", internal+"zkconn", internal+"pgsession"
	for _, tc := range []struct {
		pkg     string
		allowed []string // outside the standard library
		client  string   // its library is allowed, with everything that the library needs
	}{
		{root, nil, ""},
		{driver, []string{root}, ""},
		{kit, []string{root, driver}, ""},
		{module + "/middleware", []string{root}, ""},
		{module + "/observe", []string{root}, ""},
		{module + "/leader", []string{root}, ""},
		{module + "/otellocker", []string{root, module + "/fence", module + "/leader"}, otelAPI},
		{module + "/membackend", []string{root, driver, kit}, ""},
		{module + "/filebackend", []string{root, driver, kit}, ""},
		{module + "/redisbackend", []string{root, driver, kit, redisconn}, redisClient},
		{module + "/redlockbackend", []string{root, driver, kit, redisconn}, redisClient},
		{redisconn, []string{root, driver, kit}, redisClient},
		{redisconn + "/redistest", nil, ""},
		{etcdconn, []string{root, driver, kit}, etcdClient},
		{zkconn, []string{root, driver, kit}, zkClient},
		{pgsession, []string{root, driver, kit}, pgClient + "/pgxpool"},
		{module + "/etcdbackend", []string{root, driver, kit, etcdconn}, etcdClient},
		{module + "/pgbackend", []string{root, driver, kit, pgsession}, pgClient + "/pgxpool"},
		{module + "/zkbackend", []string{root, driver, kit, zkconn}, zkClient},
		{conformance, []string{root, module + "/middleware", step, process, "github.com/anishathalye/porcupine", "pgregory.net/rapid"}, ""},
		{step, []string{root}, ""},
		{process, []string{root, step}, ""},
		{conformance + "/proxy", nil, ""},
		{module + "/internal/redlockmodel", nil, ""},
		{module + "/internal/chart", nil, ""},
		{module + "/integration/images", nil, ""},
		{module + "/integration/netns", []string{"golang.org/x/sys/unix"}, ""},
	} {
		dir := filepath.Join(rootDir, strings.TrimPrefix(tc.pkg, module))
		if _, err := os.Stat(dir); strings.HasPrefix(tc.pkg, internal) && errors.Is(err, fs.ErrNotExist) {
			continue // not every client needs a layer of its own
		}
		if tc.client != "" {
			tc.allowed = slices.Concat(tc.allowed, []string{tc.client}, imports(t, tc.client))
		}
		if tc.pkg == root || slices.Contains(tc.allowed, root) {
			tc.allowed = append(tc.allowed, importsOfRoot...)
		}
		if tc.pkg == driver || slices.Contains(tc.allowed, driver) {
			tc.allowed = append(tc.allowed, internal+"callerctx")
		}
		for _, dep := range imports(t, tc.pkg) {
			if !slices.Contains(tc.allowed, dep) {
				t.Errorf("%s depends on %s", tc.pkg, dep)
			}
		}
	}
}

// What a package's tests import counts for its consumers as well: "go mod tidy" wants its
// checksums. Only the integration module uses containers: the go.mod of the root module requires no
// library for them.
func TestContainersStayHere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for _, library := range []string{"testcontainers", "toxiproxy", "github.com/docker/", "github.com/moby/", module + "/"} {
			if strings.Contains(line, library) && !strings.HasPrefix(line, "module ") {
				t.Errorf("go.mod has %s", strings.TrimSpace(line))
			}
		}
	}
}

// Only the command, the examples and the tests of the suite see several backends.
func TestBackendsAreApart(t *testing.T) {
	backends := []string{module + "/membackend", module + "/filebackend", module + "/redisbackend", module + "/redlockbackend", module + "/etcdbackend", module + "/pgbackend", module + "/zkbackend"}
	for _, pkg := range append(backends, module, module+"/driver", module+"/middleware", module+"/observe", module+"/otellocker", module+"/conformance") {
		for _, dep := range imports(t, pkg) {
			if slices.Contains(backends, dep) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

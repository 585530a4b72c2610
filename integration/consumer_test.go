package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// consumer creates a module that imports packages of this project, or of modules that this project
// requires, and returns its folder. main is its program, and require is what its go.mod requires.
func consumer(t *testing.T, main string, require ...string) (dir string) {
	t.Helper()
	repo, err := filepath.Abs(rootDir)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mod := "module example.com/consumer\n\ngo 1.25.0\n\n"
	for _, m := range require {
		mod += "require " + m + "\n"
		if strings.HasPrefix(m, module) {
			mod += "replace " + module + " => " + repo + "\n"
		}
	}
	write("go.mod", mod)
	write("main.go", main)
	consumerGo(t, dir, "mod", "tidy")
	return dir
}

// consumerGo runs the go command in a consumer's folder, and returns the lines of its output.
func consumerGo(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return slices.Collect(strings.Lines(string(out)))
}

// importing returns a program that imports these packages.
func importing(pkgs ...string) string {
	text := "package main\n\n"
	for _, pkg := range pkgs {
		text += "import _ \"" + pkg + "\"\n"
	}
	return text + "\nfunc main() {}\n"
}

// goSum creates a consumer of one package, of this module or of a module that it requires, and of
// further packages of this module. It returns the lines of its go.sum.
func goSum(t *testing.T, pkg string, more ...string) []string {
	t.Helper()
	require := module + " v0.0.0"
	if !strings.HasPrefix(pkg, module) {
		version, err := goCommand(t, "list", "-m", "-f", "{{.Version}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		require = pkg + " " + strings.TrimSpace(string(version))
	}
	sum, err := os.ReadFile(filepath.Join(consumer(t, importing(append(more, pkg)...), require), "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(sum)))
}

// A consumer pays only for what it imports: the root needs nothing. Another package of this module
// may cost what its own tests need (a checker of goroutine leaks), because "go mod tidy" asks for
// that, too.
func TestConsumerPaysForLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	for _, tc := range []struct {
		pkg    string
		lines  int
		client string // its lines are allowed in addition
	}{
		{module, 0, ""},
		{module + "/driver", 5, ""},
		{module + "/membackend", 5, ""},
		{module + "/filebackend", 5, ""},
		{module + "/redisbackend", 5, redisClient},
		{module + "/redlockbackend", 5, redisClient},
		{module + "/etcdbackend", 5, etcdClient},
		{module + "/pgbackend", 5, pgClient},
		{module + "/zkbackend", 5, zkClient},
		{module + "/otellocker", 35, ""},
	} {
		allowed := tc.lines
		if tc.client != "" {
			allowed += len(goSum(t, tc.client))
		}
		if sum := goSum(t, tc.pkg); len(sum) > allowed {
			t.Errorf("go.sum of a consumer of %s alone has %d lines, want at most %d:\n%s", tc.pkg, len(sum), allowed, strings.Join(sum, ""))
		}
	}
	// A backend with metrics costs what both cost alone.
	if sum := goSum(t, module+"/otellocker", module+"/redisbackend"); len(sum) > 50 {
		t.Errorf("go.sum of a consumer of otellocker and redisbackend has %d lines, want at most 50:\n%s", len(sum), strings.Join(sum, ""))
	}
}

// The module graph of a consumer contains everything that the root's go.mod requires, whatever the
// consumer imports: scanners of dependencies list all of it. It had 43 modules when this was
// written, nine of them because of OpenTelemetry.
func TestConsumerSeesFewModules(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	const most = 45
	dir := consumer(t, importing(module+"/membackend"), module+" v0.0.0")
	if all := consumerGo(t, dir, "list", "-m", "all"); len(all) > most {
		t.Errorf("a consumer of membackend sees %d modules, want at most %d:\n%s", len(all), most, strings.Join(all, ""))
	}
}

// The root requires OpenTelemetry's API for metrics, because of gRPC and of package otellocker. An
// SDK of a version before the API's may lack methods of its interfaces. So the root requires the SDK
// in the same version, and a program with an older one gets that.
func TestConsumerWithOlderOTel(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	main := `package main

import (
	_ "` + module + `/redisbackend"
	"` + otelAPI + `"
	"` + otelAPI + `/sdk/metric"
)

func main() { otel.SetMeterProvider(metric.NewMeterProvider()) }
`
	dir := consumer(t, main, module+" v0.0.0", otelAPI+"/sdk/metric v1.27.0")
	consumerGo(t, dir, "build", "-o", os.DevNull, ".")
}

// etcd's client needs OpenTelemetry's API, because of gRPC. A program with an older SDK must still
// compile.
func TestConsumerWithOlderOpenTelemetry(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	const otel = "go.opentelemetry.io/otel"
	for _, backend := range []string{"membackend", "etcdbackend"} {
		t.Run(backend, func(t *testing.T) {
			main := `package main

import (
	_ "` + module + "/" + backend + `"
	"` + otel + `"
	"` + otel + `/sdk/trace"
)

func main() { otel.SetTracerProvider(trace.NewTracerProvider()) }
`
			dir := consumer(t, main, module+" v0.0.0", otel+" v1.27.0", otel+"/sdk v1.27.0")
			consumerGo(t, dir, "build", "-o", os.DevNull, ".")
		})
	}
}

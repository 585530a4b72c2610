package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const rootDir = "../../.."

// decode reads all objects of a manifest. A field that the API doesn't have is an error.
func decode(t *testing.T, file string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

func manifests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(rootDir, "examples/kubernetes/*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("manifests: %v, %v, want at least four", files, err)
	}
	return files
}

// Strict decoding knows fields and types. What else an API server refuses, and what a typing error would
// make of a manifest, is looked at here.
func TestManifests(t *testing.T) {
	for _, file := range manifests(t) {
		pods := map[string]*corev1.PodTemplateSpec{}
		var services []*corev1.Service
		for _, object := range decode(t, file) {
			switch o := object.(type) {
			case *appsv1.Deployment:
				pods[o.Name] = &o.Spec.Template
				wantSelected(t, file, o.Spec.Selector, o.Spec.Template.Labels)
				if policy := o.Spec.Template.Spec.RestartPolicy; policy != "" && policy != corev1.RestartPolicyAlways {
					t.Errorf("%s: a Deployment's restartPolicy is %s", file, policy)
				}
			case *batchv1.CronJob:
				job := o.Spec.JobTemplate.Spec
				pods[o.Name] = &job.Template
				if job.Template.Spec.RestartPolicy != corev1.RestartPolicyNever { // a podFailurePolicy needs it
					t.Errorf("%s: restartPolicy is %q", file, job.Template.Spec.RestartPolicy)
				}
				for _, rule := range job.PodFailurePolicy.Rules {
					if codes := rule.OnExitCodes; codes != nil && *codes.ContainerName != job.Template.Spec.Containers[0].Name {
						t.Errorf("%s: a rule is about container %q", file, *codes.ContainerName)
					}
				}
			case *corev1.Service:
				services = append(services, o)
			default:
				t.Errorf("%s: %T isn't checked", file, object)
			}
		}
		for name, pod := range pods {
			checkPod(t, file+" "+name, &pod.Spec)
		}
		for _, service := range services {
			if pod := pods[service.Name]; pod == nil || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s: Service %s selects no pods of this file", file, service.Name)
			}
		}
	}
}

func wantSelected(t *testing.T, file string, selector *metav1.LabelSelector, pod map[string]string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() || !s.Matches(labels.Set(pod)) {
		t.Errorf("%s: selector %v of pods %v, %v", file, s, pod, err)
	}
}

// checkPod checks what all manifests have in common: the URL is in a secret, and the program can do no
// more than it must.
func checkPod(t *testing.T, where string, pod *corev1.PodSpec) {
	t.Helper()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s: locks need no access to the API", where)
	}
	withURL := 0
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if s := c.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: container %s runs as root, or may write to its image", where, c.Name)
		}
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("%s: no volume %q", where, mount.Name)
			}
		}
		defined := map[string]bool{}
		for _, env := range c.Env {
			defined[env.Name] = true
			if env.Name == "LOCKER_URL" {
				withURL++
				if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil || env.ValueFrom.SecretKeyRef.Name != "locker" {
					t.Errorf("%s: LOCKER_URL of container %s isn't from the secret", where, c.Name)
				}
			}
		}
		for _, arg := range slices.Concat(c.Command, c.Args) {
			for _, variable := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(arg, -1) {
				if !defined[variable[1]] {
					t.Errorf("%s: %s uses a variable that isn't defined", where, arg)
				}
			}
		}
	}
	if withURL != 1 {
		t.Errorf("%s: %d containers have LOCKER_URL, want one", where, withURL)
	}
}

// The manual has the flags of locker in manifests.
func TestFlags(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join(rootDir, "docs/command.md"))
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]string{}
	for _, command := range []string{"run", "ui"} {
		_, section, _ := strings.Cut(string(manual), "\n## locker "+command+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		tables[command] = section
	}
	found := 0
	for _, file := range manifests(t) {
		for _, object := range decode(t, file) {
			for _, args := range commands(object) {
				for _, arg := range args[1:] {
					if arg == "--" {
						break
					}
					if flag, _, _ := strings.Cut(arg, "="); strings.HasPrefix(flag, "--") {
						found++
						if row := regexp.MustCompile("(?m)^\\|.*`" + flag + "[ `]"); !row.MatchString(tables[args[0]]) {
							t.Errorf("%s: docs/command.md has no flag %s of locker %s", file, flag, args[0])
						}
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("%d flags were found in all manifests", found)
	}
}

// commands returns the arguments of locker in each container that starts it.
func commands(object runtime.Object) (all [][]string) {
	var pod corev1.PodSpec
	switch o := object.(type) {
	case *appsv1.Deployment:
		pod = o.Spec.Template.Spec
	case *batchv1.CronJob:
		pod = o.Spec.JobTemplate.Spec.Template.Spec
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if len(c.Command) > 0 && c.Command[0] == "locker" {
			all = append(all, c.Command[1:])
		} else if len(c.Command) == 0 && len(c.Args) > 0 { // an image whose entrypoint is locker
			all = append(all, c.Args)
		}
	}
	return all
}

// What docs/kubernetes.md quotes is in the manifests.
func TestQuotes(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(rootDir, "docs/kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, file := range manifests(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			lines[strings.TrimSpace(line)] = true
		}
	}
	quotes := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(quotes) == 0 {
		t.Error("docs/kubernetes.md quotes nothing")
	}
	for _, quote := range quotes {
		for line := range strings.Lines(quote[1]) {
			if !lines[strings.TrimSpace(line)] {
				t.Errorf("docs/kubernetes.md quotes %q, which no manifest has", strings.TrimSpace(line))
			}
		}
	}
}

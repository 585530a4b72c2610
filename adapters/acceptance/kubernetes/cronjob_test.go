package kubernetes

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

const (
	podStart      = 2 * time.Minute   // to schedule a pod and pull its image
	longestTTL    = 300 * time.Second // of etcd. Redis and Postgres have no limit
	ttlForAtLeast = 1.1               // as in docs/command.md
)

// A cluster that starts the job as late as it may still finds the lock of the others. The TTL that
// this needs is accepted by Redis, Postgres and etcd, and the lease ends before the job is killed.
func TestJobRunsOnce(t *testing.T) {
	found := 0
	for _, file := range manifests(t) {
		for _, object := range decode(t, file) {
			job, ok := object.(*batchv1.CronJob)
			if !ok {
				continue
			}
			if job.Spec.StartingDeadlineSeconds == nil || job.Spec.JobTemplate.Spec.ActiveDeadlineSeconds == nil {
				t.Errorf("%s: the CronJob has no startingDeadlineSeconds, or no activeDeadlineSeconds", file)
				continue
			}
			late, killed := seconds(*job.Spec.StartingDeadlineSeconds), seconds(*job.Spec.JobTemplate.Spec.ActiveDeadlineSeconds)
			for _, args := range commands(object) {
				found++
				atLeast := durationOf(t, file, args, "--at-least")
				if want := late + podStart; atLeast < want {
					t.Errorf("%s: --at-least is %v, and a cluster may start the job %v late: want at least %v", file, atLeast, late, want)
				}
				if ttl := time.Duration(float64(atLeast) * ttlForAtLeast); ttl > longestTTL {
					t.Errorf("%s: --at-least=%v needs a TTL of %v, want at most %v", file, atLeast, ttl, longestTTL)
				}
				maxHold, grace := durationOf(t, file, args, "--max-hold"), durationOf(t, file, args, "--grace")
				if maxHold < atLeast || maxHold+grace >= killed {
					t.Errorf("%s: --max-hold=%v, want at least %v, and with --grace=%v less than activeDeadlineSeconds, %v", file, maxHold, atLeast, grace, killed)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no CronJob was found")
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// durationOf returns the value of a flag, which must be there.
func durationOf(t *testing.T, file string, args []string, flag string) time.Duration {
	t.Helper()
	for _, arg := range args {
		text, ok := strings.CutPrefix(arg, flag+"=")
		if !ok {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %s: %v", file, arg, err)
		}
		return d
	}
	t.Fatalf("%s: the command has no %s", file, flag)
	return 0
}

package main

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) *meta.Time { m := meta.NewTime(now.Add(d)); return &m }
	c := config{podStart: time.Second, podRun: 5 * time.Second, podStop: 2 * time.Second}
	grace := func(s int64) *int64 { return &s }
	cases := []struct {
		name string
		pod  core.Pod
		what action
		wait time.Duration
	}{
		{"just bound", core.Pod{Status: core.PodStatus{Phase: core.PodPending}}, run, time.Second},
		{"bound a while ago", core.Pod{Status: core.PodStatus{Phase: core.PodPending, Conditions: []core.PodCondition{
			{Type: core.PodScheduled, Status: core.ConditionTrue, LastTransitionTime: *at(-time.Minute)}}}}, run, 0},
		{"running", core.Pod{Status: core.PodStatus{Phase: core.PodRunning, StartTime: at(-time.Second)}}, finish, 4 * time.Second},
		{"over", core.Pod{Status: core.PodStatus{Phase: core.PodRunning, StartTime: at(-time.Hour)}}, finish, 0},
		{"annotated", core.Pod{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{runSecondsAnnotation: "60"}},
			Status: core.PodStatus{Phase: core.PodRunning, StartTime: at(0)}}, finish, time.Minute},
		{"nonsense annotation", core.Pod{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{runSecondsAnnotation: "soon"}},
			Status: core.PodStatus{Phase: core.PodRunning, StartTime: at(0)}}, finish, 5 * time.Second},
		{"service", core.Pod{Spec: core.PodSpec{RestartPolicy: core.RestartPolicyAlways},
			Status: core.PodStatus{Phase: core.PodRunning, StartTime: at(-time.Hour)}}, nothing, 0},
		{"succeeded", core.Pod{Status: core.PodStatus{Phase: core.PodSucceeded}}, nothing, 0},
		{"deleted", core.Pod{ObjectMeta: meta.ObjectMeta{DeletionTimestamp: at(30 * time.Second), DeletionGracePeriodSeconds: grace(30)},
			Status: core.PodStatus{Phase: core.PodRunning}}, remove, 2 * time.Second},
		{"deleted, short grace", core.Pod{ObjectMeta: meta.ObjectMeta{DeletionTimestamp: at(time.Second), DeletionGracePeriodSeconds: grace(1)},
			Status: core.PodStatus{Phase: core.PodRunning}}, remove, time.Second},
		{"deleted after its end", core.Pod{ObjectMeta: meta.ObjectMeta{DeletionTimestamp: at(-time.Second), DeletionGracePeriodSeconds: grace(30)},
			Status: core.PodStatus{Phase: core.PodSucceeded}}, remove, 0},
		{"held by a finalizer only", core.Pod{ObjectMeta: meta.ObjectMeta{DeletionTimestamp: at(0), DeletionGracePeriodSeconds: grace(0)},
			Status: core.PodStatus{Phase: core.PodFailed}}, nothing, 0},
		{"forced away while running", core.Pod{ObjectMeta: meta.ObjectMeta{DeletionTimestamp: at(0), DeletionGracePeriodSeconds: grace(0)},
			Status: core.PodStatus{Phase: core.PodRunning}}, remove, 0},
	}
	for _, x := range cases {
		if what, wait := decide(c, &x.pod, now); what != x.what || wait != x.wait {
			t.Errorf("%s: got %v after %v, want %v after %v", x.name, what, wait, x.what, x.wait)
		}
	}
}

func TestIndexOf(t *testing.T) {
	for name, want := range map[string]int{"f1": 1, "f20": 20, "f": 0, "f0": 0, "f01": 0, "fx": 0, "n1": 0, "f-1": 0, "f99999999999999999999": 0} {
		if got := indexOf("f", name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

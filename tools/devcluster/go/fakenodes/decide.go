package main

import (
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
)

const (
	runSecondsAnnotation = "devcluster.local/run-seconds"
	exitCodeAnnotation   = "devcluster.local/exit-code"
)

type action int

const (
	nothing action = iota
	run            // Pending to Running
	finish         // Running to Succeeded or Failed
	remove         // end it if it lives, then delete the object
)

// decide says what a kubelet does next with a pod bound to it, and when. Pure: the time is a parameter.
func decide(c config, pod *core.Pod, now time.Time) (action, time.Duration) {
	terminal := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
	switch {
	case pod.DeletionTimestamp != nil:
		grace := time.Duration(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		if grace == 0 {
			// we, or somebody with force, deleted it for good: only finalizers keep it, but its end must still be reported
			if terminal {
				return nothing, 0
			}
			return remove, 0
		}
		asked := pod.DeletionTimestamp.Add(-grace)
		return remove, max(0, asked.Add(min(grace, c.podStop)).Sub(now))
	case terminal:
		return nothing, 0
	case pod.Status.Phase == core.PodPending || pod.Status.Phase == "":
		return run, max(0, boundAt(pod, now).Add(c.podStart).Sub(now))
	}
	seconds, annotated := annotationNumber(pod, runSecondsAnnotation)
	if !annotated && pod.Spec.RestartPolicy == core.RestartPolicyAlways {
		return nothing, 0
	}
	length := c.podRun
	if annotated {
		length = time.Duration(seconds * float64(time.Second))
	}
	if pod.Status.StartTime == nil {
		return finish, length
	}
	return finish, max(0, pod.Status.StartTime.Add(length).Sub(now))
}

// boundAt is when the pod was bound, to the second; a pod without the condition was bound just now.
func boundAt(pod *core.Pod, now time.Time) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == core.PodScheduled && condition.Status == core.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return now
}

func annotationNumber(pod *core.Pod, key string) (float64, bool) {
	value, err := strconv.ParseFloat(pod.Annotations[key], 64)
	return value, err == nil && value >= 0
}

func exitCode(pod *core.Pod) int32 {
	code, _ := annotationNumber(pod, exitCodeAnnotation)
	return int32(code)
}

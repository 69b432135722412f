package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"log"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// playPods follows all bound pods with one watch and does for those on our nodes what decide says, until ctx ends.
func playPods(ctx context.Context, c config, client kubernetes.Interface) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *meta.ListOptions) {
		o.FieldSelector = "spec.nodeName!="
	}))
	informer := factory.Core().V1().Pods().Informer()
	queue := workqueue.NewTypedDelayingQueue[string]()
	ours := func(object any) bool {
		pod, ok := object.(*core.Pod)
		return ok && indexOf(c.prefix, pod.Spec.NodeName) > 0 && indexOf(c.prefix, pod.Spec.NodeName) <= c.count
	}
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{FilterFunc: ours, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
	}})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range c.workers {
		go func() {
			for {
				key, closed := queue.Get()
				if closed {
					return
				}
				if object, found, _ := informer.GetStore().GetByKey(key); found {
					step(ctx, c, client, queue, key, object.(*core.Pod))
				}
				queue.Done(key)
			}
		}()
	}
	<-ctx.Done()
	queue.ShutDown()
}

func step(ctx context.Context, c config, client kubernetes.Interface, queue workqueue.TypedDelayingInterface[string], key string, pod *core.Pod) {
	what, wait := decide(c, pod, time.Now())
	if what == nothing {
		return
	}
	if wait > 0 {
		queue.AddAfter(key, wait)
		return
	}
	err := act(ctx, client, what, pod)
	switch {
	case err == nil || apierrors.IsNotFound(err): // the watch brings what comes next
	case apierrors.IsConflict(err): // our copy is old, the newer one is on its way
		queue.AddAfter(key, 50*time.Millisecond)
	default:
		log.Printf("pod %s: %v", key, err)
		queue.AddAfter(key, time.Second)
	}
}

func act(ctx context.Context, client kubernetes.Interface, what action, old *core.Pod) error {
	api := client.CoreV1().Pods(old.Namespace)
	pod := old.DeepCopy()
	now := meta.Now()
	switch what {
	case run:
		setRunning(pod, now)
	case finish:
		setTerminated(pod, now, exitCode(pod), "Completed")
	case remove:
		if pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed {
			setTerminated(pod, now, 137, "Killed")
			if _, err := api.UpdateStatus(ctx, pod, meta.UpdateOptions{}); err != nil {
				return err
			}
		}
		zero := int64(0)
		return api.Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &meta.Preconditions{UID: &pod.UID}})
	}
	_, err := api.UpdateStatus(ctx, pod, meta.UpdateOptions{})
	return err
}

func setCondition(pod *core.Pod, kind core.PodConditionType, status core.ConditionStatus, reason string, now meta.Time) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, now
			}
			c.Reason = reason
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, core.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: now})
}

// podAddress makes an address in 10.128.0.0/10 that nobody answers at; that two pods share one now and then does no harm.
func podAddress(uid types.UID) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid))
	h := hash.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", 128+h>>16&63, h>>8&255, h&255)
}

func setRunning(pod *core.Pod, now meta.Time) {
	status, yes := &pod.Status, true
	status.Phase, status.StartTime = core.PodRunning, &now
	ip := podAddress(pod.UID)
	status.PodIP, status.PodIPs = ip, []core.PodIP{{IP: ip}}
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, container := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, core.ContainerStatus{Name: container.Name, Image: container.Image, Ready: true,
			State: core.ContainerState{Terminated: &core.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}})
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, core.ContainerStatus{Name: container.Name, Image: container.Image, ImageID: "fake",
			ContainerID: "fake://" + string(pod.UID) + "-" + container.Name, Ready: true, Started: &yes,
			State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: now}}})
	}
	for _, kind := range []core.PodConditionType{"PodReadyToStartContainers", core.PodInitialized, core.ContainersReady, core.PodReady} {
		setCondition(pod, kind, core.ConditionTrue, "", now)
	}
}

func setTerminated(pod *core.Pod, now meta.Time, code int32, reason string) {
	pod.Status.Phase = core.PodSucceeded
	if code != 0 {
		pod.Status.Phase = core.PodFailed
		if reason == "Completed" {
			reason = "Error"
		}
	}
	for i := range pod.Status.ContainerStatuses {
		container, no := &pod.Status.ContainerStatuses[i], false
		ended := &core.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: now, ContainerID: container.ContainerID}
		if container.State.Running != nil {
			ended.StartedAt = container.State.Running.StartedAt
		}
		container.State = core.ContainerState{Terminated: ended}
		container.Ready, container.Started = false, &no
	}
	readyReason := "PodCompleted"
	if code != 0 {
		readyReason = "PodFailed"
	}
	for _, kind := range []core.PodConditionType{core.ContainersReady, core.PodReady} {
		setCondition(pod, kind, core.ConditionFalse, readyReason, now)
	}
	setCondition(pod, "PodReadyToStartContainers", core.ConditionFalse, "", now)
}

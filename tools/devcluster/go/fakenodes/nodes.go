package main

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const fakeLabel = "devcluster.local/fake"

type nodes struct {
	config config
	client kubernetes.Interface
	uids   sync.Map // node name -> types.UID
	leases sync.Map // node name -> *coordination.Lease as last seen
}

// indexOf returns the number of a node name of ours (1-based), or 0.
func indexOf(prefix, name string) int {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 1 {
		return 0
	}
	return i
}

func readyConditions(now meta.Time) []core.NodeCondition {
	condition := func(kind core.NodeConditionType, status core.ConditionStatus, reason string) core.NodeCondition {
		return core.NodeCondition{Type: kind, Status: status, Reason: reason, Message: "played by fakenodes",
			LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []core.NodeCondition{
		condition(core.NodeReady, core.ConditionTrue, "KubeletReady"),
		condition(core.NodeMemoryPressure, core.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(core.NodeDiskPressure, core.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(core.NodePIDPressure, core.ConditionFalse, "KubeletHasSufficientPID"),
	}
}

func (n *nodes) object(i int) (*core.Node, error) {
	c := n.config
	name := fmt.Sprintf("%s%d", c.prefix, i)
	labels := map[string]string{fakeLabel: "true", core.LabelHostname: name, core.LabelOSStable: "linux", core.LabelArchStable: "amd64"}
	for _, pair := range strings.Split(c.labels, ",") {
		if pair != "" {
			key, value, _ := strings.Cut(pair, "=")
			labels[key] = value
		}
	}
	capacity := core.ResourceList{}
	for key, text := range map[string]string{"cpu": c.cpu, "memory": c.memory, "pods": c.pods} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("--%s %q is not a quantity: %w", key, text, err)
		}
		capacity[core.ResourceName(key)] = quantity
	}
	if c.gpus > 0 {
		capacity[core.ResourceName(c.gpuName)] = *resource.NewQuantity(int64(c.gpus), resource.DecimalSI)
	}
	node := &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels},
		Status: core.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Conditions: readyConditions(meta.Now()),
			Addresses: []core.NodeAddress{{Type: core.NodeInternalIP, Address: nodeAddress(i)}, {Type: core.NodeHostName, Address: name}},
			NodeInfo: core.NodeSystemInfo{KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
				OSImage: "fakenodes", ContainerRuntimeVersion: "fake://1"},
		},
	}
	if c.taint != "" {
		keyValue, effect, ok := strings.Cut(c.taint, ":")
		if !ok {
			return nil, fmt.Errorf("--taint %q is not KEY=VALUE:EFFECT", c.taint)
		}
		key, value, _ := strings.Cut(keyValue, "=")
		node.Spec.Taints = []core.Taint{{Key: key, Value: value, Effect: core.TaintEffect(effect)}}
	}
	return node, nil
}

// Addresses nobody answers at, one for each node: 10.90.0.0 to 10.95.255.255.
func nodeAddress(i int) string { return fmt.Sprintf("10.%d.%d.%d", 90+i>>16, i>>8&255, i&255) }

func (n *nodes) lease(name string) *coordination.Lease {
	uid, _ := n.uids.Load(name)
	seconds, now := int32(40), meta.NowMicro()
	return &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: core.NamespaceNodeLease,
			OwnerReferences: []meta.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid.(types.UID)}}},
		Spec: coordination.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// reconcile makes the set of nodes with our label equal to 1..count: creates what is missing, deletes what is too many.
func (n *nodes) reconcile(ctx context.Context) error {
	have := map[string]*core.Node{}
	list, err := n.client.CoreV1().Nodes().List(ctx, meta.ListOptions{LabelSelector: fakeLabel + "=true"})
	if err != nil {
		return fmt.Errorf("cannot list nodes: %w", err)
	}
	var jobs []func() error
	for i := range list.Items {
		node := &list.Items[i]
		if index := indexOf(n.config.prefix, node.Name); index > n.config.count {
			jobs = append(jobs, func() error {
				return ignoreNotFound(n.client.CoreV1().Nodes().Delete(ctx, node.Name, meta.DeleteOptions{}))
			})
		} else if index > 0 {
			have[node.Name] = node
		}
	}
	for i := 1; i <= n.config.count; i++ {
		object, err := n.object(i)
		if err != nil {
			return err
		}
		jobs = append(jobs, func() error { return n.ensure(ctx, object, have[object.Name]) })
	}
	return inParallel(n.config.workers, jobs)
}

func (n *nodes) ensure(ctx context.Context, want, have *core.Node) error {
	var err error
	if have == nil {
		if have, err = n.client.CoreV1().Nodes().Create(ctx, want, meta.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			have, err = n.client.CoreV1().Nodes().Get(ctx, want.Name, meta.GetOptions{})
		}
	} else {
		err = n.writeStatus(ctx, have, want.Status)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", want.Name, err)
	}
	n.uids.Store(have.Name, have.UID)
	return n.renew(ctx, have.Name)
}

func (n *nodes) writeStatus(ctx context.Context, node *core.Node, status core.NodeStatus) error {
	node = node.DeepCopy()
	node.Status = status
	node.ResourceVersion = ""
	_, err := n.client.CoreV1().Nodes().UpdateStatus(ctx, node, meta.UpdateOptions{})
	return err
}

// renew writes the lease from the copy kept in memory: one request, no read, unless somebody else wrote it.
func (n *nodes) renew(ctx context.Context, name string) error {
	api := n.client.CoordinationV1().Leases(core.NamespaceNodeLease)
	if kept, ok := n.leases.Load(name); ok {
		lease := kept.(*coordination.Lease).DeepCopy()
		now := meta.NowMicro()
		lease.Spec.RenewTime = &now
		written, err := api.Update(ctx, lease, meta.UpdateOptions{})
		if err == nil {
			n.leases.Store(name, written)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		n.leases.Delete(name)
	}
	lease, err := api.Create(ctx, n.lease(name), meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// a node of this name lived here before; the next renewal writes to its lease, under the new owner
		if lease, err = api.Get(ctx, name, meta.GetOptions{}); err == nil {
			lease.OwnerReferences = n.lease(name).OwnerReferences
		}
	}
	if err == nil {
		n.leases.Store(name, lease)
	}
	return err
}

// keepAlive renews every lease once a period, evenly spread, and looks once a period whether a node was made NotReady.
func (n *nodes) keepAlive(ctx context.Context) {
	names := make(chan string)
	for range n.config.workers {
		go func() {
			for name := range names {
				if err := n.renew(ctx, name); err != nil && ctx.Err() == nil {
					log.Printf("lease of %s: %v", name, err)
				}
			}
		}()
	}
	for ctx.Err() == nil {
		began := time.Now()
		for i := 1; i <= n.config.count; i++ {
			due := began.Add(n.config.lease * time.Duration(i) / time.Duration(n.config.count))
			if wait := time.Until(due); wait > time.Millisecond {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
			names <- fmt.Sprintf("%s%d", n.config.prefix, i)
		}
		n.reviveNotReady(ctx)
	}
}

func (n *nodes) reviveNotReady(ctx context.Context) {
	list, err := n.client.CoreV1().Nodes().List(ctx, meta.ListOptions{LabelSelector: fakeLabel + "=true", ResourceVersion: "0"})
	if err != nil {
		log.Printf("cannot list nodes: %v", err)
		return
	}
	for i := range list.Items {
		node := &list.Items[i]
		for _, condition := range node.Status.Conditions {
			if condition.Type == core.NodeReady && condition.Status != core.ConditionTrue {
				status := node.Status
				status.Conditions = readyConditions(meta.Now())
				if err := n.writeStatus(ctx, node, status); err != nil {
					log.Printf("node %s: %v", node.Name, err)
				}
			}
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// inParallel runs all jobs on a few workers and returns the first error.
func inParallel(workers int, jobs []func() error) error {
	queue := make(chan func() error)
	errs := make(chan error, workers)
	for range workers {
		go func() {
			var first error
			for job := range queue {
				if err := job(); err != nil && first == nil {
					first = err
				}
			}
			errs <- first
		}()
	}
	for _, job := range jobs {
		queue <- job
	}
	close(queue)
	var first error
	for range workers {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}

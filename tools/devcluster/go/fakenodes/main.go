// fakenodes keeps N Node objects alive and plays their kubelet, cheaply enough for thousands on two cores.
//
// A node is real to the API: created Ready with capacity, kept alive by its Lease (the Node object itself is written
// again only if somebody made it NotReady). A pod bound to one becomes Running, and Succeeded or Failed when its time
// is over, and is removed after a short grace when deleted. Annotations on the pod:
//
//	devcluster.local/run-seconds: "30"   how long it runs (default --pod-seconds; restartPolicy Always: for ever)
//	devcluster.local/exit-code: "1"      a non-zero code makes the pod Failed
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

type config struct {
	count      int
	prefix     string
	cpu        string
	memory     string
	pods       string
	gpus       int
	gpuName    string
	labels     string
	taint      string
	lease      time.Duration
	podStart   time.Duration
	podRun     time.Duration
	podStop    time.Duration
	workers    int
	kubeconfig string
}

func flags() config {
	var c config
	f := flag.NewFlagSet("devcluster fakenodes N", flag.ExitOnError)
	f.IntVar(&c.count, "count", 0, "number of nodes (devcluster gives this one)")
	f.StringVar(&c.prefix, "prefix", "f", "node names are PREFIX1..PREFIXn")
	f.StringVar(&c.cpu, "cpu", "64", "capacity and allocatable cpu of a node")
	f.StringVar(&c.memory, "memory", "256Gi", "capacity and allocatable memory of a node")
	f.StringVar(&c.pods, "pods", "110", "capacity and allocatable pods of a node")
	f.IntVar(&c.gpus, "gpus", 0, "capacity and allocatable GPUs of a node")
	f.StringVar(&c.gpuName, "gpu-name", "nvidia.com/gpu", "resource name of the GPUs")
	f.StringVar(&c.labels, "labels", "", "more labels, KEY=VALUE,KEY=VALUE")
	f.StringVar(&c.taint, "taint", "", "a taint, KEY=VALUE:EFFECT")
	f.DurationVar(&c.lease, "lease", 25*time.Second, "time between two renewals of a node's lease (nodes count as dead after 50s)")
	f.DurationVar(&c.podStart, "pod-start", 300*time.Millisecond, "time from bound to Running")
	f.DurationVar(&c.podRun, "pod-seconds", 5*time.Second, "time a pod runs if no annotation says otherwise")
	f.DurationVar(&c.podStop, "pod-stop", 500*time.Millisecond, "time a deleted pod takes to end (never more than its grace)")
	f.IntVar(&c.workers, "workers", 8, "API requests in flight at most, for each of nodes and pods")
	f.StringVar(&c.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file")
	_ = f.Parse(os.Args[1:])
	return c
}

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	c := flags()
	restConfig, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		log.Fatalf("no usable kubeconfig: %v", err)
	}
	restConfig.QPS, restConfig.Burst = -1, 0 // the worker counts are the limit
	restConfig.ContentType = "application/vnd.kubernetes.protobuf"
	restConfig.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	restConfig.UserAgent = "devcluster-fakenodes"
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	n := &nodes{config: c, client: client}
	began := time.Now()
	if err := n.reconcile(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("fakenodes: %d nodes after %v\n", c.count, time.Since(began).Round(time.Millisecond))
	if c.count == 0 {
		return
	}
	go n.keepAlive(ctx)
	playPods(ctx, c, client)
}
